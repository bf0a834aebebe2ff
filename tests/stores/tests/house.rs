//! The rules of the house: imports run one way, between files and between folders, and no file is long.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LONGEST_FILE: usize = 400;

/// The folders of a crate. Each imports from those before it only.
const FOLDERS: [(&str, &[&str]); 2] = [
    (
        "guard-core",
        &["base", "store", "caller", "engine", "lease_guard"],
    ),
    (
        "guard-redis",
        &[
            "protocol",
            "connection",
            "wakeups",
            "topology",
            "store",
            "builder",
        ],
    ),
];

/// A file by the path of its module, such as `engine::gate`, and what it imports of its own crate.
type Files = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_root = |folder: &&Path| folder.join("guard-core").is_dir();
    here.ancestors().find(is_root).unwrap().to_owned()
}

/// All crates that users link, with the texts of their files by module, tests left out.
fn crates() -> BTreeMap<String, BTreeMap<String, String>> {
    let folders = fs::read_dir(root()).unwrap().map(|it| it.unwrap().path());
    let folders = folders.filter(|folder| {
        let name = folder.file_name().unwrap().to_string_lossy();
        name.starts_with("guard-") && folder.join("src").is_dir()
    });
    folders
        .map(|folder| {
            let mut texts = BTreeMap::new();
            read(&folder.join("src"), "", &mut texts);
            let name = folder.file_name().unwrap().to_string_lossy();
            (name.into_owned(), texts)
        })
        .collect()
}

fn read(folder: &Path, above: &str, texts: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy();
        let module = format!("{above}{name}");
        if path.is_dir() {
            read(&path, &format!("{module}::"), texts);
        } else {
            texts.insert(module, fs::read_to_string(&path).unwrap());
        }
    }
}

/// What each file names of its crate, by `crate::` and `super::`, outside of its tests.
fn imports(texts: &BTreeMap<String, String>) -> Files {
    let of = |module: &str, text: &str| {
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let lines = code.lines().map(str::trim_start);
        let code: Vec<_> = lines.filter(|line| !line.starts_with("//")).collect();
        let code = code.join("\n");
        let mut found = BTreeSet::new();
        for (start, above) in [("crate::", ""), ("super::", parent(module))] {
            for after in code.split(start).skip(1) {
                let is_path =
                    |it: char| it.is_ascii_lowercase() || matches!(it, '_' | ':' | '0'..='9');
                let end = after.find(|it| !is_path(it)).unwrap_or(after.len());
                let names = after[..end].split("::").filter(|name| !name.is_empty());
                let mut path = above.to_owned();
                let mut file = None;
                for name in names {
                    path = if path.is_empty() {
                        name.to_owned()
                    } else {
                        format!("{path}::{name}")
                    };
                    if texts.contains_key(&path) {
                        file = Some(path.clone());
                    }
                }
                found.extend(file.filter(|file| file != module));
            }
        }
        found
    };
    texts
        .iter()
        .map(|(module, text)| (module.clone(), of(module, text)))
        .collect()
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

#[test]
fn no_two_files_import_each_other_by_whatever_way() {
    for (name, texts) in crates() {
        let mut files = imports(&texts);
        // What imports nothing that is left cannot be in a circle.
        loop {
            let done: BTreeSet<_> = files
                .iter()
                .filter(|it| it.1.is_empty())
                .map(|it| it.0.clone())
                .collect();
            if done.is_empty() {
                break;
            }
            files.retain(|module, _| !done.contains(module));
            for imports in files.values_mut() {
                imports.retain(|it| !done.contains(it));
            }
        }
        assert!(
            files.is_empty(),
            "{name}: these import each other, or one that does: {files:#?}"
        );
    }
}

#[test]
fn folders_import_from_lower_ones_only() {
    let crates = crates();
    for (name, folders) in FOLDERS {
        let floor = |module: &str| {
            let folder = module.split("::").next().unwrap();
            folders.iter().position(|it| *it == folder)
        };
        for (module, imports) in imports(&crates[name]) {
            for import in imports {
                let (here, there) = (floor(&module), floor(&import));
                assert!(
                    module == "lib" || here.is_some() && there <= here,
                    "{name}: {module} imports {import}"
                );
            }
        }
    }
}

#[test]
fn no_file_is_long() {
    for (name, texts) in crates() {
        for (module, text) in texts {
            let lines = text.lines().count();
            assert!(lines <= LONGEST_FILE, "{name}: {module} has {lines} lines");
        }
    }
}
