//! The Lua 5.1 that runs scripts, with the ways of Redis 7.0. See `prelude.lua` for what scripts find in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mlua::{Function, IntoLua, Lua, LuaOptions, StdLib, Table, Value as LuaValue};

use crate::convert::from_lua;
use crate::host;
use crate::store::Store;
use crate::value::{lossy, Value};

const PRELUDE: &str = include_str!("prelude.lua");

/// What a script's chunk is called in error texts.
const CHUNK: &str = "@user_script";

/// An interpreter that is bound to one store.
#[derive(Debug)]
pub(crate) struct Engine {
    lua: Lua,
    run: Function,
    /// By SHA-1. Never emptied, as in Redis.
    compiled: HashMap<String, Function>,
}

impl Engine {
    pub(crate) fn new(store: &Arc<Mutex<Store>>) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // Set, this leaves xpcall as Lua has it: the prelude's handler counts the frames above it.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let set_globals = lua.create_function(|lua, globals: Table| lua.set_globals(globals))?;
        let as_table = lua.create_function(|lua, raised: LuaValue| host::as_table(lua, &raised))?;
        let place = lua.create_function(|lua, ()| Ok(host::place(lua)))?;
        let run = lua.load(PRELUDE).set_name(host::PRELUDE_CHUNK).call((
            host::functions(&lua, store)?,
            as_table,
            place,
            set_globals,
        ))?;
        Ok(Self { lua, run, compiled: HashMap::new() })
    }

    /// Runs a script; the `Err` side is the text of an error that escaped it.
    pub(crate) fn run<W: AsRef<[u8]>>(
        &mut self,
        sha: &str,
        text: &[u8],
        keys: &[W],
        args: &[W],
    ) -> Result<Value, String> {
        let chunk = self.compile(sha, text)?;
        let broken = |error: mlua::Error| format!("ERR Error running script {sha}: {error}");
        let keys = self.lua.create_sequence_from(keys.iter().map(Word)).map_err(broken)?;
        let args = self.lua.create_sequence_from(args.iter().map(Word)).map_err(broken)?;
        match self.run.call((chunk, keys, args)).map_err(broken)? {
            (true, result) => from_lua(&result).map_err(|text| lossy(&text)),
            (false, LuaValue::Table(raised)) => Err(escaped(&raised, sha)),
            (false, _) => Err("ERR execution failure".to_owned()),
        }
    }

    /// Makes a function of a script, once.
    pub(crate) fn compile(&mut self, sha: &str, text: &[u8]) -> Result<Function, String> {
        if let Some(chunk) = self.compiled.get(sha) {
            return Ok(chunk.clone());
        }
        let chunk = self.lua.load(text).set_name(CHUNK).set_mode(mlua::chunk::ChunkMode::Text).into_function();
        let chunk = chunk.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => {
                format!("ERR Error compiling script (new function): {}", message.trim_end())
            }
            other => format!("ERR Error compiling script (new function): {other}"),
        })?;
        self.compiled.insert(sha.to_owned(), chunk.clone());
        Ok(chunk)
    }
}

/// One of KEYS or ARGV: bytes, and no list of numbers.
struct Word<'a, W>(&'a W);

impl<W: AsRef<[u8]>> IntoLua for Word<'_, W> {
    fn into_lua(self, lua: &Lua) -> mlua::Result<LuaValue> {
        lua.create_string(self.0).map(LuaValue::String)
    }
}

/// The text of an error that escaped a script, with the place that Redis adds.
fn escaped(raised: &Table, sha: &str) -> String {
    let text = match raised.raw_get("err") {
        Ok(LuaValue::String(text)) => lossy(&text.as_bytes()),
        // Redis 7.0.15 itself crashes here.
        _ => "ERR execution failure".to_owned(),
    };
    let place: (Option<String>, Option<i64>) =
        (raised.raw_get("source").unwrap_or_default(), raised.raw_get("line").unwrap_or_default());
    let text = match place {
        (Some(source), Some(line)) => format!("{text} script: {sha}, on {source}:{line}."),
        _ => text,
    };
    text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ")
}
