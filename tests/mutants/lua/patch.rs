//! Mutants without a rebuild: the texts of the scripts stand in the test program as they are in `lua/`, so a copy of it
//! gets another text of the same length. A folder beside it has the same for tests that read the files.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use support::files;

/// The scripts as they are, by their paths from `lua/` on, and where their texts stand in the program.
pub struct Scripts {
    pub texts: BTreeMap<String, String>,
    places: BTreeMap<String, Vec<usize>>,
}

/// The scripts as they are in `lua/`.
pub fn texts() -> BTreeMap<String, String> {
    let paths = files::below("lua").into_iter();
    paths.map(|path| (path["lua/".len()..path.len() - ".lua".len()].to_owned(), files::read(&path))).collect()
}

impl Scripts {
    pub fn of(program: &Path) -> Scripts {
        let (bytes, texts) = (fs::read(program).unwrap(), texts());
        let mut places = BTreeMap::<String, Vec<usize>>::new();
        // Each text begins with `-- NAME.lua: `.
        let begins = memchr::memmem::find_iter(&bytes, b".lua: ");
        for (end, (name, text)) in begins.flat_map(|end| texts.iter().map(move |script| (end, script))) {
            let start = end.wrapping_sub("-- ".len() + name.len());
            if bytes.get(start..).is_some_and(|rest| rest.starts_with(text.as_bytes())) {
                places.entry(name.clone()).or_default().push(start);
            }
        }
        let missing: Vec<_> = texts.keys().filter(|name| !places.contains_key(*name)).collect();
        assert!(missing.is_empty(), "{} was built from other scripts: {missing:?}", program.display());
        Scripts { texts, places }
    }
}

/// The text at the length that the original has: what it is longer by is cut from the words of its first line.
pub fn fitted(old: &str, new: &str) -> Option<String> {
    let (first, rest) = new.split_once('\n')?;
    let columns = (first.len() + old.len()).checked_sub(new.len())?;
    let kept = first.get(..columns.min(first.len()))?;
    // Its name has to stay.
    let is_named = kept.len() > old.find(".lua: ")? + ".lua: ".len();
    is_named.then(|| format!("{kept:-<columns$}\n{rest}"))
}

/// A copy of the program, and of the scripts' folder, for one mutant after the other.
pub struct Copy<'a> {
    scripts: &'a Scripts,
    pub program: PathBuf,
    pub lua: PathBuf,
}

impl<'a> Copy<'a> {
    pub fn new(scripts: &'a Scripts, program: &Path, folder: &Path) -> Copy<'a> {
        let _ = fs::remove_dir_all(folder);
        for (name, text) in &scripts.texts {
            let path = folder.join(format!("lua/{name}.lua"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let copy = folder.join("program");
        fs::copy(program, &copy).unwrap();
        Copy { scripts, program: copy, lua: folder.join("lua") }
    }

    /// Gives both this text of a script.
    pub fn write(&self, name: &str, text: &str) {
        assert_eq!(text.len(), self.scripts.texts[name].len(), "{name}: of the same length");
        fs::write(self.lua.join(format!("{name}.lua")), text).unwrap();
        let mut program: File = OpenOptions::new().write(true).open(&self.program).unwrap();
        for place in &self.scripts.places[name] {
            program.seek(SeekFrom::Start(*place as u64)).unwrap();
            program.write_all(text.as_bytes()).unwrap();
        }
    }

    /// In each script the end of the first line, which is a comment.
    pub fn write_other_comments(&self) {
        for (name, text) in &self.scripts.texts {
            let (first, rest) = text.split_once('\n').unwrap();
            self.write(name, &format!("{}~\n{rest}", &first[..first.len() - 1]));
        }
    }

    pub fn restore(&self, name: &str) {
        self.write(name, &self.scripts.texts[name]);
    }
}
