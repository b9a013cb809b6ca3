//! `man`: one page with all commands.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::Args;
use crate::out::Out;
use crate::{End, Failure, Outcome};

pub fn run(out: &Out) -> Outcome {
    let page = page(Args::command()).map_err(Failure::unreachable)?;
    out.line(page.trim_end())?;
    Ok(End::Done)
}

/// The page of the command itself, and behind its list of commands a section for each: what each of them takes stands
/// nowhere else.
fn page(command: Command) -> io::Result<String> {
    let (name, commands) = (command.get_name().to_owned(), command.get_subcommands().cloned().collect::<Vec<_>>());
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    for command in commands {
        let name = format!("{name} {}", command.get_name());
        let mut section = Vec::new();
        let man = Man::new(command.bin_name(&name));
        man.render_synopsis_section(&mut section)?;
        man.render_description_section(&mut section)?;
        man.render_options_section(&mut section)?;
        let section = String::from_utf8_lossy(&section);
        // A section of a page of its own is one below this heading. How a quote is written has been said.
        let lines = section.lines().filter(|line| !line.starts_with(".ie") && !line.starts_with(".el"));
        let lines = lines.map(|line| line.strip_prefix(".SH ").map_or(line.to_owned(), |rest| format!(".SS {rest}")));
        let section = lines.collect::<Vec<_>>().join("\n");
        page.extend(format!(".SH \"{}\"\n{section}\n", name.to_uppercase()).into_bytes());
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_what_it_takes() {
        let page = page(Args::command()).unwrap();
        assert_eq!(page.matches(".TH ").count(), 1);
        for command in Args::command().get_subcommands() {
            let head = format!(".SH \"LOCKSON {}\"\n", command.get_name().to_uppercase());
            let (_, section) = page.split_once(&head).unwrap_or_else(|| panic!("{head} is not in {page}"));
            let section = section.split("\n.SH ").next().unwrap();
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                let option = format!("\\-\\-{}", option.replace('-', "\\-"));
                assert!(section.contains(&option), "{head} has no {option}: {section}");
            }
        }
    }
}
