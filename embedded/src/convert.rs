//! Between the answers of the server and the values of Lua, by the rules of Redis with RESP2.

use mlua::{Lua, Table, Value as LuaValue};

use crate::numbers::format_float;
use crate::value::Value;

/// How deep tables may lie in each other in an answer; one that contains itself ends here.
const MAX_DEPTH: usize = 100;

/// What a script gets to see of a command's answer.
pub(crate) fn to_lua(lua: &Lua, value: Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Nil => LuaValue::Boolean(false),
        // Lua 5.1 has doubles only: beyond 2^53 digits are lost, in Redis too.
        Value::Int(value) => LuaValue::Number(value as f64),
        Value::Bulk(text) => LuaValue::String(lua.create_string(text)?),
        Value::Status(text) => LuaValue::Table(single(lua, "ok", &text)?),
        Value::Error(text) => LuaValue::Table(error_table(lua, &text)?),
        Value::List(items) => {
            let items: Vec<_> = items.into_iter().map(|item| to_lua(lua, item)).collect::<mlua::Result<_>>()?;
            LuaValue::Table(lua.create_sequence_from(items)?)
        }
    })
}

/// A table with one field of text.
pub(crate) fn single(lua: &Lua, field: &str, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, lua.create_string(text)?)?;
    Ok(table)
}

/// The error of a command, as pcall shows it.
pub(crate) fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = single(lua, "err", text)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(table)
}

/// The answer that a script's value becomes; the `Err` side is an error in place of the whole answer.
pub(crate) fn from_lua(value: &LuaValue) -> Result<Value, Vec<u8>> {
    match convert(value, 0).ok_or_else(|| b"ERR reached lua stack limit".to_vec())? {
        Value::Error(text) => Err(text),
        other => Ok(other),
    }
}

fn convert(value: &LuaValue, depth: usize) -> Option<Value> {
    Some(match value {
        LuaValue::Boolean(true) => Value::Int(1),
        LuaValue::Integer(value) => Value::Int(*value),
        LuaValue::Number(value) => Value::Int(truncated(*value)),
        LuaValue::String(text) => Value::Bulk(text.as_bytes().to_vec()),
        LuaValue::Table(table) => return table_to_value(table, depth),
        _ => Value::Nil,
    })
}

fn table_to_value(table: &Table, depth: usize) -> Option<Value> {
    if depth >= MAX_DEPTH {
        return None;
    }
    let field = |name: &str| table.raw_get::<LuaValue>(name).unwrap_or(LuaValue::Nil);
    if let LuaValue::String(text) = field("err") {
        return Some(Value::Error(one_line(without_line_end(&text.as_bytes()))));
    }
    if let LuaValue::String(text) = field("ok") {
        return Some(Value::Status(one_line(&text.as_bytes())));
    }
    match field("double") {
        LuaValue::Number(value) => return Some(Value::bulk(format_float(value))),
        LuaValue::Integer(value) => return Some(Value::bulk(format_float(value as f64))),
        _ => {}
    }
    let mut items = Vec::new();
    for place in 1.. {
        match table.raw_get::<LuaValue>(place).unwrap_or(LuaValue::Nil) {
            // The first nil ends an array.
            LuaValue::Nil => break,
            item => items.push(convert(&item, depth + 1)?),
        }
    }
    Some(Value::List(items))
}

/// The text without line ends behind it.
pub(crate) fn without_line_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// A line end inside a status or error would break the protocol.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// The conversion of C on the machines that Redis mostly runs on: towards 0, and the least number for all that has no
/// whole number of 64 bits.
fn truncated(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}
