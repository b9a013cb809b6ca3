//! The files of `src/`: which module each is, what it declares, and the paths that its code names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

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
    pub declares: BTreeSet<String>,
    /// Names that it imports, and from where.
    pub imports: BTreeMap<String, Route>,
    /// Modules of which it imports all.
    pub globs: BTreeSet<Route>,
    /// All paths in its code that begin at the crate, at this module, at the one above or at a child.
    pub named: BTreeSet<Route>,
}

/// All modules of a crate.
pub struct Tree {
    pub modules: BTreeMap<Route, Module>,
    /// The text of each file by its path below `src/`.
    pub files: BTreeMap<String, String>,
    routes: BTreeSet<Route>,
}

impl Tree {
    /// Of `src/` at a repository's root.
    pub fn read(root: &Path) -> Self {
        let src = root.join("src");
        let (mut folders, mut files) = (vec![src.clone()], BTreeMap::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&src).unwrap().to_str().unwrap().replace('\\', "/");
                match path.is_dir() {
                    true => folders.push(path),
                    false if name.ends_with(".rs") && !name.starts_with(APART) => {
                        files.insert(name, std::fs::read_to_string(path).unwrap());
                    }
                    false => {}
                }
            }
        }
        Self::new(files)
    }

    /// A small tree that a test makes up.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    fn new(files: BTreeMap<String, String>) -> Self {
        let routes = files.keys().map(|file| module_of(file)).collect();
        let mut tree = Self { modules: BTreeMap::new(), files, routes };
        for (file, text) in tree.files.clone() {
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("src/{file}: {error}"));
            let tokens: Vec<TokenTree> = tokens.into_iter().collect();
            tree.declare(&file, &module_of(&file), &tokens);
            tree.scan(&module_of(&file), &tokens);
        }
        tree
    }

    /// Notes what a module declares, before its paths are read.
    fn declare(&mut self, file: &str, module: &Route, tokens: &[TokenTree]) {
        let mut declares = BTreeSet::new();
        let mut rest = tokens;
        while let Some((first, after)) = rest.split_first() {
            if let Some(item) = behind_test(rest) {
                rest = behind_item(item);
                continue;
            }
            rest = after;
            let name = match (word(first).as_deref(), after) {
                (Some("macro_rules"), [_, name, ..]) => word(name),
                (Some("struct" | "enum" | "trait" | "type" | "fn" | "const" | "static" | "mod"), [name, ..]) => {
                    word(name)
                }
                _ => None,
            };
            declares.extend(name);
        }
        let entry = self.modules.entry(module.clone()).or_default();
        entry.file = file.to_owned();
        entry.declares.extend(declares);
    }

    fn scan(&mut self, module: &Route, tokens: &[TokenTree]) {
        let mut rest = tokens;
        let mut before: Option<String> = None;
        while let Some((first, after)) = rest.split_first() {
            if let Some(item) = behind_test(rest) {
                rest = behind_item(item);
                continue;
            }
            let (last, here) = (before.take(), word(first));
            before = here.clone().or_else(|| Some(first.to_string()));
            rest = match (here.as_deref(), first, after) {
                // `pub(in crate::a)` is no import.
                (_, TokenTree::Group(_), _) if last.as_deref() == Some("pub") => after,
                (Some("mod"), _, [name, TokenTree::Group(body), after @ ..]) => {
                    let inner = [module.as_slice(), &[name.to_string()]].concat();
                    let file = self.modules[module].file.clone();
                    let body: Vec<TokenTree> = body.stream().into_iter().collect();
                    self.declare(&file, &inner, &body);
                    self.scan(&inner, &body);
                    after
                }
                (Some("use"), ..) => {
                    let (tree, after) = split_at_semicolon(after);
                    self.imports(module, &[], tree);
                    after
                }
                (Some(_), _, [colon, ..]) if is_colon(colon) && last.as_deref() != Some(":") => {
                    let (path, after) = simple_path(rest);
                    self.name(module, &path);
                    after
                }
                (_, TokenTree::Group(group), _) => {
                    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.scan(module, &inside);
                    after
                }
                _ => after,
            };
        }
    }

    /// A path in a body or a signature.
    fn name(&mut self, module: &Route, path: &[String]) {
        if let Some(route) = self.absolute(module, path).or_else(|| self.imported(module, path)) {
            self.modules.get_mut(module).unwrap().named.insert(route);
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
        for tree in split_at_commas(tokens) {
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
        let route = [parent.as_slice(), &[child.to_owned()]].concat();
        self.modules.contains_key(&route) || self.routes.contains(&route)
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

/// What comes behind a `#[cfg(test)]` that begins here.
fn behind_test(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    let [hash, TokenTree::Group(attribute), rest @ ..] = tokens else { return None };
    let mut inside = attribute.stream().into_iter();
    let is_cfg = is(hash, '#') && inside.next().is_some_and(|name| name.to_string() == "cfg");
    let only_tests = |condition: TokenTree| match condition {
        TokenTree::Group(group) => needs_test(group.stream()),
        _ => false,
    };
    (is_cfg && inside.next().is_some_and(only_tests)).then_some(rest)
}

/// `test`, or `all(..)` with it.
pub fn needs_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Ident(ident) => ident == "test",
        TokenTree::Group(group) => at > 0 && tokens[at - 1].to_string() == "all" && needs_test(group.stream()),
        _ => false,
    })
}

const BEGINS_ITEM: [&str; 12] =
    ["pub", "fn", "async", "struct", "enum", "impl", "mod", "trait", "type", "const", "static", "use"];

/// What comes behind the item, field or arm that begins here.
fn behind_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let begin = tokens.first().and_then(word).unwrap_or_default();
    let is_item = BEGINS_ITEM.contains(&begin.as_str());
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && begin != "use",
        token => is(token, ';') || (is(token, ',') && !is_item),
    };
    let end = tokens.iter().position(is_end).map_or(tokens.len(), |at| at + 1);
    &tokens[end..]
}

fn split_at_semicolon(tokens: &[TokenTree]) -> (&[TokenTree], &[TokenTree]) {
    let end = tokens.iter().position(|token| is(token, ';')).unwrap_or(tokens.len());
    (&tokens[..end], tokens.get(end + 1..).unwrap_or_default())
}

fn split_at_commas(tokens: &[TokenTree]) -> impl Iterator<Item = &[TokenTree]> {
    tokens.split(|token| is(token, ',')).filter(|part| !part.is_empty())
}
