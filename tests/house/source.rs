//! The modules of `src/`: what each declares, and the paths that its code names. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// From the crate's root: `["backend", "fred", "Fred"]`. `*` is all that a module has.
pub type Route = Vec<String>;

/// A member of the workspace soon, which knows the seam alone.
const APART: &str = "backend/embedded/";

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
    pub files: BTreeMap<String, TokenStream>,
}

impl Tree {
    /// Of `src/` at a repository's root.
    pub fn read(root: &Path) -> Self {
        let src = root.join("src");
        let (mut folders, mut files) = (vec![src.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&src).unwrap().to_str().unwrap().replace('\\', "/");
                if path.is_dir() {
                    folders.push(path);
                } else if name.ends_with(".rs") && !name.starts_with(APART) {
                    files.push((name, std::fs::read_to_string(path).unwrap()));
                }
            }
        }
        Self::of(&files.iter().map(|(name, text)| (&**name, &**text)).collect::<Vec<_>>())
    }

    /// Of files that a test makes up, too.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let code = |text: &str| without_tests(text.parse().unwrap());
        let files: BTreeMap<_, _> = files.iter().map(|(file, text)| ((*file).to_owned(), code(text))).collect();
        let mut tree = Self { modules: BTreeMap::new(), files: files.clone() };
        // All are declared before the first path is read.
        files.iter().for_each(|(file, code)| tree.declare(file, &module_of(file), code));
        files.into_iter().for_each(|(file, code)| tree.scan(&module_of(&file), code));
        tree
    }

    fn declare(&mut self, file: &str, module: &Route, code: &TokenStream) {
        let tokens: Vec<TokenTree> = code.clone().into_iter().collect();
        let declared = tokens.windows(3).filter_map(|tokens| match word(&tokens[0])?.as_str() {
            "macro_rules" => word(&tokens[2]),
            "struct" | "enum" | "trait" | "type" | "fn" | "const" | "static" | "mod" => word(&tokens[1]),
            _ => None,
        });
        let declares = declared.collect();
        self.modules.insert(module.clone(), Module { file: file.to_owned(), declares, ..Module::default() });
    }

    fn scan(&mut self, module: &Route, code: TokenStream) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let [first, after @ ..] = rest {
            rest = match (word(first).as_deref(), first, after) {
                // `pub(in crate::a)` is no import.
                (Some("pub"), _, [TokenTree::Group(_), after @ ..]) => after,
                (Some("mod"), _, [name, TokenTree::Group(body), after @ ..]) => {
                    let inner = [module.as_slice(), &[name.to_string()]].concat();
                    let file = self.modules[module].file.clone();
                    self.declare(&file, &inner, &body.stream());
                    self.scan(&inner, body.stream());
                    after
                }
                (Some("use"), ..) => {
                    let end = after.iter().position(|token| is(token, ';')).unwrap_or(after.len());
                    self.imports(module, &[], &after[..end]);
                    &after[end..]
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

    /// The paths of one `use`, groups within groups too.
    fn imports(&mut self, module: &Route, prefix: &[String], tokens: &[TokenTree]) {
        for tree in tokens.split(|token| is(token, ',')).filter(|part| !part.is_empty()) {
            let mut path = prefix.to_vec();
            let mut alias = None;
            let mut rest = tree;
            while let Some((first, after)) = rest.split_first() {
                rest = after;
                match first {
                    TokenTree::Group(group) => {
                        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                        self.imports(module, &path, &inside);
                        path.clear();
                    }
                    TokenTree::Ident(ident) if ident == "as" => {
                        alias = after.first().map(ToString::to_string);
                        break;
                    }
                    TokenTree::Ident(ident) if ident == "self" && !path.is_empty() => {}
                    TokenTree::Ident(ident) => path.push(ident.to_string()),
                    TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
                    _ => {}
                }
            }
            self.import(module, &path, alias);
        }
    }

    fn import(&mut self, module: &Route, path: &[String], alias: Option<String>) {
        let (Some(last), Some(route)) = (path.last(), self.absolute(module, path)) else { return };
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

    /// The module that declares what a path leads to, and its name there: through whatever re-exports it.
    /// A path to a module itself says nothing: what is named in it does.
    pub fn find(&self, route: &[String]) -> Option<(&Module, String)> {
        self.find_within(route, 0)
    }

    fn find_within(&self, route: &[String], depth: usize) -> Option<(&Module, String)> {
        let known = (0..=route.len()).rev().find(|length| self.modules.contains_key(&route[..*length]))?;
        let module = &self.modules[&route[..known]];
        let name = route.get(known)?;
        if name == "*" || module.declares.contains(name) || depth > 20 {
            return Some((module, name.clone()));
        }
        if let Some(to) = module.imports.get(name).filter(|to| to[..] != *route) {
            return self.find_within(&[to.as_slice(), &route[known + 1..]].concat(), depth + 1);
        }
        let by_glob = module.globs.iter().filter(|glob| glob[..] != route[..known]).find_map(|glob| {
            let found = self.find_within(&[glob.as_slice(), &route[known..]].concat(), depth + 1)?;
            found.0.declares.contains(&found.1).then_some(found)
        });
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
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == proc_macro2::Spacing::Joint)
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

/// Code without each item, field or arm behind a `#[cfg(test)]`.
fn without_tests(code: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    let (mut kept, mut rest) = (TokenStream::new(), tokens.as_slice());
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (hash, [TokenTree::Group(attribute), item @ ..]) if is(hash, '#') && is_for_tests(attribute) => {
                let is_item = item.first().and_then(word).is_some_and(|word| BEGINS_ITEM.contains(&word.as_str()));
                let is_end = |token: &TokenTree| match token {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    token => is(token, ';') || (is(token, ',') && !is_item),
                };
                let end = item.iter().position(is_end).map_or(item.len(), |at| at + 1);
                &item[end..]
            }
            (TokenTree::Group(group), after) => {
                let group = Group::new(group.delimiter(), without_tests(group.stream()));
                kept.extend([TokenTree::from(group)]);
                after
            }
            (token, after) => {
                kept.extend([token.clone()]);
                after
            }
        };
    }
    kept
}

/// `[cfg(test)]`, or with more conditions in an `all(..)`.
fn is_for_tests(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

const BEGINS_ITEM: [&str; 11] =
    ["pub", "fn", "async", "struct", "enum", "impl", "mod", "trait", "type", "const", "static"];
