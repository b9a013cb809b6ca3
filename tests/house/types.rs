//! The types and functions of `src/`, and which of them a function names.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{quote, ToTokens};
use syn::{Field, Fields, FnArg, ImplItem, Item, Pat, Signature, TraitItem, Visibility};

use super::source::{is, module_of, name_of, simple_path, word, Module, Route, Tree};

/// A type by the file that declares it, and its name.
pub type Type = (String, String);

/// What a type is made of: the types in each field; of an enum, also those in each variant.
pub type Parts = BTreeMap<String, TokenStream>;

/// In the parts of an alias: what it stands for.
const ALIAS: &str = "=";

struct Function {
    /// Modules, type if any, name.
    route: Route,
    module: Route,
    /// The type whose function it is; the trait, where it is a default.
    owner: Option<Type>,
    is_of_trait: bool,
    /// Of the `impl`: its type, its trait, its bounds; then the signature.
    header: TokenStream,
    signature: Signature,
    body: TokenStream,
}

/// What is declared, outside of tests.
pub struct Index<'a> {
    tree: &'a Tree,
    pub types: BTreeMap<Type, Parts>,
    /// How many fields other files can touch, but users can't.
    pub shared_fields: usize,
    functions: Vec<Function>,
}

impl<'a> Index<'a> {
    pub fn of(tree: &'a Tree) -> Self {
        let mut index = Self { tree, types: BTreeMap::new(), shared_fields: 0, functions: Vec::new() };
        tree.modules.values().for_each(|module| index.declare(module));
        // Owners are found by their names: after all types are known.
        tree.modules.iter().for_each(|(route, module)| index.implement(route, module));
        index
    }

    fn declare(&mut self, module: &Module) {
        for item in &module.items {
            let parts = match item {
                Item::Struct(item) => {
                    let is_shared = |field: &&Field| matches!(field.vis, Visibility::Restricted(_));
                    self.shared_fields += item.fields.iter().filter(is_shared).count();
                    parts_of(&item.fields)
                }
                Item::Enum(item) => {
                    let mut parts = Parts::new();
                    for variant in &item.variants {
                        parts.insert(variant.ident.to_string(), variant.fields.to_token_stream());
                        parts.extend(parts_of(&variant.fields).into_iter().filter(|(name, _)| name != "0"));
                    }
                    parts
                }
                Item::Trait(_) => Parts::new(),
                // No type of its own: what it stands for counts.
                Item::Type(item) => Parts::from([(ALIAS.to_owned(), item.ty.to_token_stream())]),
                _ => continue,
            };
            self.types.extend(name_of(item).map(|name| ((module.file.clone(), name.to_string()), parts)));
        }
    }

    fn implement(&mut self, module: &Route, Module { file, items, .. }: &Module) {
        for item in items {
            let mut functions: Vec<(&Signature, TokenStream)> = Vec::new();
            let (owner, header, is_of_trait) = match item {
                Item::Fn(item) => {
                    functions.push((&item.sig, item.block.to_token_stream()));
                    (None, TokenStream::new(), false)
                }
                Item::Impl(item) => {
                    let (ty, generics, bounds) = (&item.self_ty, &item.generics.params, &item.generics.where_clause);
                    let of = item.trait_.as_ref().map(|(_, path, _)| path);
                    functions.extend(item.items.iter().filter_map(|part| match part {
                        ImplItem::Fn(part) => Some((&part.sig, part.block.to_token_stream())),
                        _ => None,
                    }));
                    let owner = self.collect(module, ty.to_token_stream()).into_iter().next();
                    (owner, quote!(#ty #of #generics #bounds), of.is_some())
                }
                Item::Trait(item) => {
                    functions.extend(item.items.iter().filter_map(|part| match part {
                        TraitItem::Fn(part) => Some((&part.sig, part.default.to_token_stream())),
                        _ => None,
                    }));
                    (Some((file.clone(), item.ident.to_string())), item.ident.to_token_stream(), true)
                }
                _ => continue,
            };
            for (signature, body) in functions {
                let name = owner.iter().map(|(_, name)| name.clone()).chain([signature.ident.to_string()]);
                let route = module.iter().cloned().chain(name).collect();
                let (module, owner, signature) = (module.clone(), owner.clone(), signature.clone());
                let header = quote!(#header #signature);
                self.functions.push(Function { route, module, owner, is_of_trait, header, signature, body });
            }
        }
    }

    /// The function of this name: `line::Line::join`, with as many modules before as it takes to be the only one.
    fn find(&self, name: &str) -> Result<&Function, String> {
        let end: Route = name.split("::").map(str::to_owned).collect();
        let mut found: Vec<_> = self.functions.iter().filter(|function| function.route.ends_with(&end)).collect();
        if found.len() > 1 {
            // A type's own goes before a trait's of the same name.
            found.retain(|function| !function.is_of_trait);
        }
        match found[..] {
            [function] => Ok(function),
            [] => Err(format!("no function `{name}`")),
            _ => Err(format!("{} functions `{name}`", found.len())),
        }
    }

    /// The types that a function names in its signature, its fields and its body, in order, each once; after these.
    pub fn named(&self, function: &str, met: &[Type]) -> Result<Vec<Type>, String> {
        let function = self.find(function)?;
        let mut reader = Reader { index: self, function, locals: BTreeMap::new(), met, named: Vec::new() };
        reader.read(function.header.clone());
        for input in &function.signature.inputs {
            let FnArg::Typed(input) = input else { continue };
            let Pat::Ident(name) = &*input.pat else { continue };
            let types = self.collect(&function.module, input.ty.to_token_stream());
            reader.locals.insert(name.ident.to_string(), types);
        }
        reader.read(function.body.clone());
        Ok(reader.named)
    }

    /// The type that a path begins with, and what comes behind it in the path.
    fn resolve<'p>(&self, module: &Route, path: &'p [String]) -> Option<(Type, &'p [String])> {
        (1..=path.len()).find_map(|length| {
            let route = self.tree.route(module, &path[..length])?;
            let (module, name) = self.tree.find(&route)?;
            let found = (module.file.clone(), name);
            self.types.contains_key(&found).then_some((found, &path[length..]))
        })
    }

    /// The types in a declaration.
    fn collect(&self, module: &Route, tokens: TokenStream) -> Vec<Type> {
        let (tokens, mut found): (Vec<TokenTree>, _) = (tokens.into_iter().collect(), Vec::new());
        let mut rest = tokens.as_slice();
        while let Some((first, after)) = rest.split_first() {
            let (path, behind) = simple_path(rest);
            found.extend(self.resolve(module, &path).into_iter().flat_map(|(found, _)| self.meant(found)));
            rest = if path.is_empty() { after } else { behind };
            if let TokenTree::Group(group) = first {
                found.extend(self.collect(module, group.stream()));
            }
        }
        found
    }

    /// The type itself; of an alias, the types that it stands for.
    fn meant(&self, found: Type) -> Vec<Type> {
        self.part(&found, ALIAS).unwrap_or_else(|| vec![found])
    }

    /// The types in a field or a variant.
    fn part(&self, of: &Type, name: &str) -> Option<Vec<Type>> {
        let declared = self.types.get(of)?.get(name)?;
        Some(self.collect(&module_of(&of.0), declared.clone()))
    }

    /// The types that a method of one of these types returns, where only one has this name.
    fn returned(&self, of: &[Type], name: &str) -> Option<Vec<Type>> {
        let is_it = |function: &&Function| {
            function.owner.as_ref().is_some_and(|owner| of.contains(owner)) && function.signature.ident == name
        };
        let mut found = self.functions.iter().filter(is_it);
        let function = found.next().filter(|_| found.next().is_none())?;
        let output = function.signature.output.to_token_stream();
        let is_self = output.to_string().contains("Self");
        let owner = function.owner.iter().filter(|_| is_self).cloned();
        Some(owner.chain(self.collect(&function.module, output)).collect())
    }
}

/// Reads the code of one function.
struct Reader<'a> {
    index: &'a Index<'a>,
    function: &'a Function,
    /// Arguments, and the types in their declarations.
    locals: BTreeMap<String, Vec<Type>>,
    met: &'a [Type],
    named: Vec<Type>,
}

impl Reader<'_> {
    fn meet(&mut self, found: impl IntoIterator<Item = Type>) {
        for found in found {
            if !self.named.contains(&found) {
                self.named.push(found);
            }
        }
    }

    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        // The types of what stands before a dot, where that is known; and whose they are from the next `;` on.
        let (mut of, mut bound): (Known, Option<String>) = (None, None);
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match first {
                TokenTree::Group(group) => {
                    self.read(group.stream());
                    of = None;
                }
                first if is(first, '.') => (of, rest) = self.read_dot(of, after),
                first if is(first, '?') => {}
                first if is(first, ';') => {
                    if let Some(name) = bound.take() {
                        self.locals.insert(name, of.take().unwrap_or_default());
                    }
                }
                TokenTree::Ident(name) if name == "self" => of = self.function.owner.clone().map(|owner| vec![owner]),
                TokenTree::Ident(name) if name == "let" => {
                    let name = after.iter().map_while(word).find(|word| word != "mut");
                    bound = name.filter(|name| name.starts_with(char::is_lowercase));
                }
                TokenTree::Ident(_) => {
                    let path = &tokens[tokens.len() - after.len() - 1..];
                    (of, rest) = self.read_path(path);
                }
                _ => of = None,
            }
        }
    }

    /// A field or a method, behind the dot.
    fn read_dot<'t>(&mut self, of: Known, behind: &'t [TokenTree]) -> (Known, &'t [TokenTree]) {
        let Some((name, after)) = behind.split_first() else { return (None, behind) };
        let is_call = match after {
            [TokenTree::Group(group), ..] => group.delimiter() == Delimiter::Parenthesis,
            [first, second, ..] => is(first, ':') && is(second, ':'),
            _ => false,
        };
        let name = name.to_string();
        if name == "await" {
            return (of, after);
        }
        if is_call {
            let returned = of.as_deref().and_then(|of| self.index.returned(of, &name));
            let [arguments, after @ ..] = after else { return (None, after) };
            self.read(arguments.to_token_stream());
            return (returned.or_else(|| of.filter(|_| HANDS_ON.contains(&&*name))), after);
        }
        let exact = of.iter().flatten().find_map(|of| self.index.part(of, &name));
        let found = exact.or_else(|| {
            // Of what was met, the only type with such a field.
            let met = self.named.iter().chain(self.met).filter(|_| of.is_none());
            let mut parts = met.collect::<BTreeSet<_>>().into_iter().filter_map(|of| self.index.part(of, &name));
            let first = parts.next()?;
            parts.next().is_none().then_some(first)
        });
        self.meet(found.iter().flatten().cloned());
        (found, after)
    }

    /// A type, a variant, a pattern, a literal, a local or a function by its path.
    fn read_path<'t>(&mut self, tokens: &'t [TokenTree]) -> (Known, &'t [TokenTree]) {
        let (path, after) = simple_path(tokens);
        let resolved = match path.first().map(String::as_str) {
            Some("Self") => self.function.owner.clone().map(|owner| (owner, &path[1..])),
            _ => self.index.resolve(&self.function.module, &path),
        };
        let Some((found, behind)) = resolved else {
            let local = self.locals.get(&path.join("::")).filter(|types| !types.is_empty()).cloned();
            return (local, after);
        };
        let meant = self.index.meant(found);
        self.meet(meant.iter().cloned());
        let Some(found) = meant.into_iter().next() else { return (None, after) };
        let mut returned = None;
        if let [name, ..] = behind {
            self.meet(self.index.part(&found, name).into_iter().flatten());
            returned = self.index.returned(std::slice::from_ref(&found), name);
        }
        let [TokenTree::Group(group), after @ ..] = after else { return (None, after) };
        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
        for field in inside.split(|token| is(token, ',')).filter(|_| group.delimiter() == Delimiter::Brace) {
            let name = field.iter().filter_map(word).find(|word| word != "ref" && word != "mut");
            let part = name.and_then(|name| self.index.part(&found, &name));
            self.meet(part.into_iter().flatten());
        }
        self.read(group.stream());
        (returned.filter(|_| group.delimiter() == Delimiter::Parenthesis), after)
    }
}

/// Types that an expression may have, where that is known.
type Known = Option<Vec<Type>>;

/// Methods after which it is about the same.
const HANDS_ON: [&str; 8] = ["as_mut", "as_ref", "clone", "filter", "iter", "lock", "take", "unwrap_or_else"];

fn parts_of(fields: &Fields) -> Parts {
    let named = fields.iter().enumerate().map(|(at, field)| {
        let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
        (name, field.ty.to_token_stream())
    });
    named.collect()
}
