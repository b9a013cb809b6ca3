//! The modules of `src/`: what each declares, and the paths that its code names. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::{quote, ToTokens};
use syn::{Fields, FieldsNamed, Ident, Item, ItemMod, ItemUse, UseTree};

/// From the crate's root: `["backend", "fred", "Fred"]`. `*` is all that a module has.
pub type Route = Vec<String>;

/// What one module has: a file, or `mod name { .. }` within one.
#[derive(Default)]
pub struct Module {
    /// Its path below `src/`.
    pub file: String,
    /// Its code, without what only unit tests have, and without that of its child modules.
    pub items: Vec<Item>,
    /// Names that it declares, its child modules too.
    declares: BTreeSet<String>,
    /// Names that it imports, and from where.
    imports: BTreeMap<String, Route>,
    /// Modules of which it imports all.
    globs: BTreeSet<Route>,
    /// All paths in its code that begin at the crate, at this module, at the one above or at a child.
    pub named: BTreeSet<Route>,
}

/// All modules of a crate.
pub struct Tree {
    pub modules: BTreeMap<Route, Module>,
}

impl Tree {
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        for (file, text) in files {
            tree.declare(file, module_of(file), syn::parse_file(text).unwrap().items);
        }
        // All are declared before the first path is read.
        let code = |(route, module): (&Route, &Module)| (route.clone(), module.items.clone());
        for (route, items) in tree.modules.iter().map(code).collect::<Vec<_>>() {
            tree.scan(&route, quote!(#(#items)*));
        }
        tree
    }

    /// The files' paths below `src/`.
    pub fn files(&self) -> Vec<String> {
        let files: BTreeSet<_> = self.modules.values().map(|module| module.file.clone()).collect();
        files.into_iter().collect()
    }

    fn declare(&mut self, file: &str, route: Route, items: Vec<Item>) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for mut item in items.into_iter().filter(is_shipped) {
            module.declares.extend(name_of(&item).map(ToString::to_string));
            match &mut item {
                Item::Mod(ItemMod { ident, content: Some((_, items)), .. }) => {
                    let inner = [route.as_slice(), &[ident.to_string()]].concat();
                    self.declare(file, inner, std::mem::take(items));
                }
                Item::Impl(item) => item.items.retain(is_shipped),
                Item::Struct(syn::ItemStruct { fields: Fields::Named(FieldsNamed { named, .. }), .. }) => {
                    *named = std::mem::take(named).into_iter().filter(is_shipped).collect();
                }
                _ => {}
            }
            module.items.push(item);
        }
        self.modules.insert(route, module);
    }

    fn scan(&mut self, module: &Route, code: TokenStream) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let [first, after @ ..] = rest {
            rest = match (word(first).as_deref(), first, after) {
                // `pub(in crate::a)` is no import.
                (Some("pub"), _, [TokenTree::Group(_), after @ ..]) => after,
                (Some("use"), _, [next, ..]) if !is(next, '<') => {
                    let (tree, after) = after.split_at(after.iter().position(|token| is(token, ';')).unwrap());
                    let import: ItemUse = syn::parse2(quote!(use #(#tree)*;)).unwrap();
                    self.imports(module, &[], import.tree);
                    after
                }
                (Some(_), _, [colon, ..]) if is_colon(colon) => {
                    let (path, after) = simple_path(rest);
                    let route = self.absolute(module, &path);
                    self.modules.entry(module.clone()).or_default().named.extend(route);
                    after
                }
                (_, TokenTree::Group(group), _) => {
                    self.scan(module, group.stream());
                    after
                }
                _ => after,
            };
        }
    }

    /// Where a path leads from a module, to what it declares too.
    pub fn route(&self, module: &Route, path: &[String]) -> Option<Route> {
        let own = || self.modules[module].declares.contains(path.first()?).then(|| [module.as_slice(), path].concat());
        self.absolute(module, path).or_else(own)
    }

    /// The paths of one `use`.
    fn imports(&mut self, module: &Route, prefix: &[String], tree: UseTree) {
        let with = |name: &dyn ToString| match name.to_string() {
            name if name == "self" && !prefix.is_empty() => prefix.to_vec(),
            name => [prefix, &[name]].concat(),
        };
        let (path, alias) = match tree {
            UseTree::Path(tree) => return self.imports(module, &with(&tree.ident), *tree.tree),
            UseTree::Group(group) => {
                return group.items.into_iter().for_each(|tree| self.imports(module, prefix, tree));
            }
            UseTree::Name(tree) => (with(&tree.ident), None),
            UseTree::Rename(tree) => (with(&tree.ident), Some(tree.rename.to_string())),
            UseTree::Glob(_) => (with(&'*'), None),
        };
        let (Some(last), Some(route)) = (path.last(), self.absolute(module, &path)) else { return };
        let entry = self.modules.get_mut(module).unwrap();
        if last == "*" {
            entry.globs.insert(route[..route.len() - 1].to_vec());
        } else {
            entry.imports.insert(alias.unwrap_or_else(|| last.clone()), route.clone());
        }
        entry.named.insert(route);
    }

    /// From the crate's root; `None` for paths into other crates, and those that begin at a type.
    fn absolute(&self, module: &Route, path: &[String]) -> Option<Route> {
        let (first, mut rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => module.split_last()?.1.to_vec(),
            // A child module. (A type or function of this module would be no import.)
            _ if !rest.is_empty() && self.modules.contains_key(&[module.as_slice(), &path[..1]].concat()) => {
                [module.as_slice(), &path[..1]].concat()
            }
            // By a name that was imported: `use crate::wait;`, then `wait::Turn`.
            imported => self.modules[module].imports.get(imported)?.clone(),
        };
        while rest.first().is_some_and(|first| first == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        (!base.is_empty()).then_some(base)
    }

    /// The module that declares what a path leads to, through re-exports, and its name there. None for a module itself.
    pub fn find(&self, route: &[String]) -> Option<(&Module, String)> {
        let known = (0..=route.len()).rev().find(|length| self.modules.contains_key(&route[..*length]))?;
        let (module, name) = (&self.modules[&route[..known]], route.get(known)?);
        if module.declares.contains(name) {
            return Some((module, name.clone()));
        }
        if let Some(to) = module.imports.get(name).filter(|to| to[..] != *route) {
            return self.find(&[to.as_slice(), &route[known + 1..]].concat());
        }
        let mut globs = module.globs.iter().filter_map(|glob| self.modules.get(glob));
        Some((globs.find(|glob| glob.declares.contains(name)).unwrap_or(module), name.clone()))
    }
}

/// `hold/entry.rs` is `hold::entry`, `hold/mod.rs` is `hold`, `lib.rs` the root.
pub fn module_of(file: &str) -> Route {
    let name = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if name == "lib" {
        return Vec::new();
    }
    name.split('/').map(str::to_owned).collect()
}

pub fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

pub fn is(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint)
}

/// The path that begins here, up to what is no plain name, and what comes behind it.
pub fn simple_path(tokens: &[TokenTree]) -> (Vec<String>, &[TokenTree]) {
    let (mut path, mut rest) = (Vec::new(), tokens);
    while let [name, after @ ..] = rest {
        let Some(name) = word(name) else { break };
        path.push(name);
        rest = after;
        match rest {
            [first, second, after @ ..] if is_colon(first) && is(second, ':') => rest = after,
            _ => break,
        }
    }
    (path, rest)
}

/// The name that an item declares.
pub fn name_of(item: &Item) -> Option<&Ident> {
    match item {
        Item::Struct(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Const(item) => Some(&item.ident),
        Item::Static(item) => Some(&item.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Mod(item) => Some(&item.ident),
        _ => None,
    }
}

/// Whether no attribute of it is `#[cfg(test)]`, or more conditions in an `all(..)`.
fn is_shipped(item: &impl ToTokens) -> bool {
    let tokens: Vec<TokenTree> = item.to_token_stream().into_iter().collect();
    let mut attributes =
        tokens.windows(2).step_by(2).take_while(|pair| is(&pair[0], '#')).map(|pair| pair[1].to_string());
    attributes.all(|text| !["[cfg(test)]", "[cfg(all(test,"].iter().any(|cfg| text.replace(' ', "").starts_with(cfg)))
}
