//! The last step before the command: the process that becomes it. It dies with the keeper.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{getppid, set_parent_process_death_signal, Pid, Signal};

use super::line::is_json;
use super::stdin;
use crate::args::{NOT_EXECUTABLE, NOT_FOUND};
use crate::out::failed;
use crate::{End, Failure};

/// Refuses a command that can't be started, before a lock is taken for it.
pub fn find(program: Option<&OsString>) -> Result<(), Failure> {
    let Some(program) = program else { return Err(Failure(End::Of(2), "there is no command".to_owned())) };
    let state = if program.as_encoded_bytes().contains(&b'/') {
        state(Path::new(program))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let found = std::env::split_paths(&path).map(|folder| state(&folder.join(program)));
        // One that can be started, or else one that is there.
        found.max().unwrap_or(State::Missing)
    };
    match state {
        State::Executable => Ok(()),
        State::There => Err(failure(program, NOT_EXECUTABLE, "it can't be executed")),
        State::Missing => Err(failure(program, NOT_FOUND, "there is no such command")),
    }
}

fn failure(program: &OsStr, code: u8, why: &str) -> Failure {
    Failure(End::Of(code), format!("{}: {why}", program.display()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Missing,
    There,
    Executable,
}

fn state(path: &Path) -> State {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => State::Executable,
        Ok(_) => State::There,
        Err(_) => State::Missing,
    }
}

/// The words are how failures are told, the keeper's process id, and the command.
pub fn exec(words: Vec<OsString>) -> u8 {
    let mut words = words.into_iter();
    let json = is_json(words.next());
    let keeper = words.next().and_then(|pid| pid.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let Some(program) = words.next() else { return NOT_FOUND };
    // Who has another parent by now has lost the keeper before this was said.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || getppid() != keeper {
        return NOT_EXECUTABLE;
    }
    // It comes when `lockson` was told of this process's group.
    let Ok((of_command, _way)) = stdin::take() else { return NOT_EXECUTABLE };
    let error = Command::new(&program).args(words).stdin(Stdio::from(of_command)).exec();
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    failed(json, &format!("{}: {error}", program.display()), code);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_looked_up_as_a_shell_does() {
        let code = |program: &str| find(Some(&program.into())).map_err(|Failure(end, _)| end);
        assert_eq!(code("sh"), Ok(()));
        assert_eq!(code("/bin/sh"), Ok(()));
        assert_eq!(code("no-such-command-anywhere"), Err(End::Of(127)));
        assert_eq!(code("/no/such/command"), Err(End::Of(127)));
        assert_eq!(code("/etc/passwd"), Err(End::Of(126)));
        assert_eq!(code("/etc"), Err(End::Of(126)));
    }
}
