//! The modules of `src/`: what each declares, and the paths that its code names. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::{quote, ToTokens};
use syn::{Fields, FieldsNamed, File, Item, ItemUse, UseTree};

/// From the crate's root: `["backend", "fred", "Fred"]`. `*` is all that a module has.
pub type Route = Vec<String>;

/// What one module has: a file, or `mod name { .. }` within one.
#[derive(Default)]
pub struct Module {
    /// Its path below `src/`.
    pub file: String,
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
    /// The code of each file by its path below `src/`, without what only unit tests have.
    pub files: BTreeMap<String, File>,
}

impl Tree {
    pub fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let code = |text| syn::parse_file(text).map(|file| File { items: without_tests(file.items), ..file }).unwrap();
        let files: BTreeMap<_, _> = files.into_iter().map(|(file, text)| (file.to_owned(), code(text))).collect();
        let mut tree = Self { modules: BTreeMap::new(), files: files.clone() };
        // All are declared before the first path is read.
        files.iter().for_each(|(file, code)| tree.declare(file, module_of(file), &code.items));
        files.iter().for_each(|(file, code)| tree.scan(&module_of(file), code.to_token_stream()));
        tree
    }

    fn declare(&mut self, file: &str, module: Route, items: &[Item]) {
        let mut declares = BTreeSet::new();
        for item in items {
            let name = match item {
                Item::Struct(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Fn(item) => &item.sig.ident,
                Item::Const(item) => &item.ident,
                Item::Static(item) => &item.ident,
                Item::Macro(syn::ItemMacro { ident: Some(ident), .. }) => ident,
                Item::Mod(item) => {
                    let inner = [module.as_slice(), &[item.ident.to_string()]].concat();
                    item.content.iter().for_each(|(_, items)| self.declare(file, inner.clone(), items));
                    &item.ident
                }
                _ => continue,
            };
            declares.insert(name.to_string());
        }
        self.modules.insert(module, Module { file: file.to_owned(), declares, ..Module::default() });
    }

    fn scan(&mut self, module: &Route, code: TokenStream) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let [first, after @ ..] = rest {
            rest = match (word(first).as_deref(), first, after) {
                // `pub(in crate::a)` is no import.
                (Some("pub"), _, [TokenTree::Group(_), after @ ..]) => after,
                (Some("mod"), _, [name, TokenTree::Group(body), after @ ..]) => {
                    self.scan(&[module.as_slice(), &[name.to_string()]].concat(), body.stream());
                    after
                }
                (Some("use"), _, [next, ..]) if !is(next, '<') => {
                    let (tree, after) = after.split_at(after.iter().position(|token| is(token, ';')).unwrap());
                    let import: ItemUse = syn::parse2(quote!(use #(#tree)*;)).unwrap();
                    self.imports(module, &[], import.tree);
                    after
                }
                (Some(_), _, [colon, ..]) if is_colon(colon) => {
                    let (path, after) = simple_path(rest);
                    let route = self.absolute(module, &path).or_else(|| self.imported(module, &path));
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

    /// By a name that was imported: `use crate::wait;`, then `wait::Turn`.
    fn imported(&self, module: &Route, path: &[String]) -> Option<Route> {
        let (first, rest) = path.split_first()?;
        let to = self.modules[module].imports.get(first)?;
        Some([to.as_slice(), rest].concat())
    }

    /// Where a path leads from a module, to what it declares too.
    pub fn route(&self, module: &Route, path: &[String]) -> Option<Route> {
        let own = || self.modules[module].declares.contains(path.first()?).then(|| [module.as_slice(), path].concat());
        self.absolute(module, path).or_else(|| self.imported(module, path)).or_else(own)
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
            child if !rest.is_empty() && self.is_module(module, child) => [module.as_slice(), &path[..1]].concat(),
            _ => return None,
        };
        while rest.first().is_some_and(|first| first == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        (!base.is_empty()).then_some(base)
    }

    fn is_module(&self, parent: &Route, child: &str) -> bool {
        self.modules.contains_key(&[parent.as_slice(), &[child.to_owned()]].concat())
    }

    /// The module that declares what a path leads to, through re-exports, and its name there. None for a module itself.
    pub fn find(&self, route: &[String]) -> Option<(&Module, String)> {
        self.find_within(route, 20)
    }

    /// Modules may import all of each other: through so many at most.
    fn find_within(&self, route: &[String], most: usize) -> Option<(&Module, String)> {
        let known = (0..=route.len()).rev().find(|length| self.modules.contains_key(&route[..*length]))?;
        let module = &self.modules[&route[..known]];
        let name = route.get(known)?;
        if name == "*" || module.declares.contains(name) || most == 0 {
            return Some((module, name.clone()));
        }
        let beyond = |to: &Route| self.find_within(&[to.as_slice(), &route[known..]].concat(), most - 1);
        if let Some(to) = module.imports.get(name).filter(|to| to[..] != *route) {
            return self.find_within(&[to.as_slice(), &route[known + 1..]].concat(), most - 1);
        }
        let globs = module.globs.iter().filter(|glob| glob[..] != route[..known]);
        let by_glob = globs.filter_map(beyond).find(|(module, name)| module.declares.contains(name));
        by_glob.or_else(|| Some((module, name.clone())))
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

/// Items, functions of an `impl` and fields without those behind a `#[cfg(test)]`.
fn without_tests(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<Item> = items.into_iter().filter(is_shipped).collect();
    for item in &mut kept {
        match item {
            Item::Mod(item) => item.content = item.content.take().map(|(brace, items)| (brace, without_tests(items))),
            Item::Impl(item) => item.items.retain(is_shipped),
            Item::Struct(syn::ItemStruct { fields: Fields::Named(FieldsNamed { named, .. }), .. }) => {
                *named = std::mem::take(named).into_iter().filter(is_shipped).collect();
            }
            _ => {}
        }
    }
    kept
}

/// Whether no attribute of it is `#[cfg(test)]`, or more conditions in an `all(..)`.
fn is_shipped(item: &impl ToTokens) -> bool {
    let tokens: Vec<TokenTree> = item.to_token_stream().into_iter().collect();
    let mut attributes =
        tokens.windows(2).step_by(2).take_while(|pair| is(&pair[0], '#')).map(|pair| pair[1].to_string());
    attributes.all(|text| !["[cfg(test)]", "[cfg(all(test,"].iter().any(|cfg| text.replace(' ', "").starts_with(cfg)))
}
