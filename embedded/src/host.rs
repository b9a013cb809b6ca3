//! The functions that Rust brings into Lua.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Lua, Table, Value as LuaValue, Variadic};

use crate::commands;
use crate::convert::{error_table, single, to_lua, without_line_end};
use crate::numbers::format_float;
use crate::sha1_hex;
use crate::store::Store;
use crate::value::{lossy, Answer, Text, Value};

/// What the prelude's chunk is called, so that its frames are told from a script's.
pub(crate) const PRELUDE_CHUNK: &str = "=prelude";

const NO_ARGUMENT: Text = Text::Borrowed("ERR Please specify at least one argument for this redis lib call");
const BAD_ARGUMENT: Text = Text::Borrowed("ERR Lua redis lib command arguments must be strings or integers");

/// An error on its way to the script. Lua sees it as userdata; the prelude makes it the table that Redis raises.
#[derive(Debug)]
struct Raised(Text);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise(text: impl Into<Text>) -> mlua::Error {
    mlua::Error::external(Raised(text.into()))
}

/// The members of `redis` that are functions.
pub(crate) fn functions(lua: &Lua, store: &Arc<Mutex<Store>>) -> mlua::Result<Table> {
    let functions = lua.create_table()?;
    let caller = Arc::clone(store);
    let call_function = lua.create_function(move |lua, words: Variadic<LuaValue>| {
        let answer = call(&mut caller.lock().unwrap_or_else(PoisonError::into_inner), &words);
        to_lua(lua, answer.map_err(raise)?)
    })?;
    let caller = Arc::clone(store);
    let pcall_function = lua.create_function(move |lua, words: Variadic<LuaValue>| {
        let answer = call(&mut caller.lock().unwrap_or_else(PoisonError::into_inner), &words);
        to_lua(lua, answer.unwrap_or_else(|text| Value::Error(text.into_owned().into_bytes())))
    })?;
    functions.raw_set("call", call_function)?;
    functions.raw_set("pcall", pcall_function)?;
    functions.raw_set("error_reply", lua.create_function(error_reply)?)?;
    functions.raw_set("status_reply", lua.create_function(status_reply)?)?;
    functions.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    let asked = Arc::clone(store);
    let may = lua.create_function(move |_, words: Variadic<LuaValue>| {
        acl_check_cmd(&asked.lock().unwrap_or_else(PoisonError::into_inner), &words)
    })?;
    functions.raw_set("acl_check_cmd", may)?;
    functions.raw_set("log", lua.create_function(log)?)?;
    Ok(functions)
}

/// Runs a command for a script; its error texts for what can't be called differ from a client's.
fn call(store: &mut Store, words: &[LuaValue]) -> Answer {
    if words.is_empty() {
        return Err(NO_ARGUMENT);
    }
    let words: Vec<Vec<u8>> = words.iter().map(word).collect::<Option<_>>().ok_or(BAD_ARGUMENT)?;
    let (name, args) = words.split_first().ok_or(NO_ARGUMENT)?;
    let command = commands::find(name).ok_or(Text::Borrowed("ERR Unknown Redis command called from script"))?;
    if !command.takes(words.len()) {
        return Err(Text::Borrowed("ERR Wrong number of args calling Redis command from script"));
    }
    if !store.allows(command.name) {
        return Err(format!(
            "ERR ACL failure in script: User default has no permissions to run the '{}' command",
            command.name
        )
        .into());
    }
    if store.is_full() {
        let (grows, writes) = command.writes();
        if !store.has_room(grows, writes) {
            return Err(Text::Borrowed("OOM command not allowed when used memory > 'maxmemory'."));
        }
    }
    let Store { keys, touched, .. } = store;
    if let Some(touched) = touched {
        touched.before(keys, command.name, args);
    }
    let answer = command.run(store, args);
    if let Some(touched) = &mut store.touched {
        touched.after(command.name, args, &answer);
    }
    answer
}

/// One argument of a command; numbers are written with up to 17 digits.
fn word(value: &LuaValue) -> Option<Vec<u8>> {
    match value {
        LuaValue::String(text) => Some(text.as_bytes().to_vec()),
        LuaValue::Integer(value) => Some(format_float(*value as f64).into_bytes()),
        LuaValue::Number(value) => Some(format_float(*value).into_bytes()),
        _ => None,
    }
}

/// The only argument, when it is the only one and a string or, as everywhere in Lua, a number.
fn only(lua: &Lua, args: &[LuaValue]) -> Option<Vec<u8>> {
    let [one] = args else { return None };
    Some(lua.coerce_string(one.clone()).ok()??.as_bytes().to_vec())
}

fn error_reply(lua: &Lua, args: Variadic<LuaValue>) -> mlua::Result<Table> {
    let [LuaValue::String(text)] = args.as_slice() else {
        return single(lua, "err", b"ERR wrong number or type of arguments");
    };
    let text = text.as_bytes();
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    let text = without_line_end(text);
    // A single word is taken for a message without a code.
    let code: &[u8] = if text.contains(&b' ') { b"" } else { b"ERR " };
    single(lua, "err", &[code, text].concat())
}

fn status_reply(lua: &Lua, args: Variadic<LuaValue>) -> mlua::Result<Table> {
    let [LuaValue::String(text)] = args.as_slice() else {
        return single(lua, "err", b"ERR wrong number or type of arguments");
    };
    single(lua, "ok", &text.as_bytes())
}

fn sha1hex(lua: &Lua, args: Variadic<LuaValue>) -> mlua::Result<String> {
    let text = only(lua, &args).ok_or_else(|| raise("ERR wrong number of arguments"))?;
    Ok(sha1_hex(text))
}

/// There is one user here, who may do all but what is denied.
fn acl_check_cmd(store: &Store, words: &[LuaValue]) -> mlua::Result<bool> {
    let first = words.first().ok_or_else(|| raise(NO_ARGUMENT))?;
    Ok(word(first).is_none_or(|name| store.allows(&lossy(&name).to_lowercase())))
}

fn log(_: &Lua, words: Variadic<LuaValue>) -> mlua::Result<()> {
    if words.len() < 2 {
        return Err(raise("ERR redis.log() requires two arguments or more."));
    }
    Ok(())
}

/// Makes an error of a Rust function the table that Redis would have raised.
pub(crate) fn as_table(lua: &Lua, raised: &LuaValue) -> mlua::Result<Table> {
    let LuaValue::Error(error) = raised else { return single(lua, "err", b"ERR execution failure") };
    match error.chain().find_map(|cause| cause.downcast_ref::<Raised>()) {
        Some(Raised(text)) => error_table(lua, text.as_bytes()),
        None => error_table(lua, format!("ERR {error}").as_bytes()),
    }
}

/// A frame of the Lua stack.
struct Frame {
    source: String,
    line: Option<usize>,
    native: bool,
    prelude: bool,
}

fn frame(lua: &Lua, level: usize) -> Option<Frame> {
    lua.inspect_stack(level, |debug| {
        let source = debug.source();
        let text = source.source.as_deref().unwrap_or_default();
        Frame {
            line: debug.current_line(),
            native: source.what == "C",
            prelude: text == PRELUDE_CHUNK,
            source: text.to_owned(),
        }
    })
}

/// Where an error was raised, as Redis sees it: the function that raised it or, if that is none of Lua's, its caller.
/// What the prelude defines counts as not Lua's. Called by the prelude's handler, which is called by what raised.
pub(crate) fn place(lua: &Lua) -> (Option<String>, Option<usize>) {
    const RAISER: usize = 2;
    let mut frames = (RAISER..).map_while(|level| frame(lua, level));
    let mut found = frames.next();
    if found.as_ref().is_some_and(|frame| frame.native) {
        found = frames.next();
    }
    while found.as_ref().is_some_and(|frame| frame.prelude) {
        found = frames.next();
    }
    found.map_or((None, None), |frame| (Some(frame.source), frame.line))
}
