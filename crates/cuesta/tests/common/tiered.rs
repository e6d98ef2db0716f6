//! A store with lower tiers, programs that work on it, and what its tiers hold.

use super::conversation::Conversation;
use super::{Ended, TestFolder};
use std::path::PathBuf;

/// Files of many sizes in a tree, and how to look whether all of it is there.
pub const TREE: &str = "
def data(n):
    return random.Random(n).randbytes(n * n * 1000 % 700_001 + n)
def name(n):
    return f'/cuesta/tree/{n % 3}/{n % 5}/{n}'
def make():
    for n in range(40):
        os.makedirs(os.path.dirname(name(n)), exist_ok=True)
        with open(name(n), 'wb') as file:
            file.write(data(n))
            os.fsync(file.fileno())
def check():
    for n in range(40):
        assert open(name(n), 'rb').read() == data(n), n
";

/// Bytes of the blocks that the tree takes.
pub fn bytes_of_tree() -> u64 {
    (0..40_u64).map(|n| (n * n * 1000 % 700_001 + n).div_ceil(4096) * 4096).sum()
}

/// A store with a fast tier of 8 MiB over a disk tier of 256 MiB.
pub struct Tiered {
    pub place: TestFolder,
    /// On a disk: where the tests' folders lie is memory.
    pub disk: tempfile::TempDir,
}

impl Tiered {
    pub fn new() -> Tiered {
        Tiered::with_fast_tier_of("8M")
    }

    pub fn with_fast_tier_of(size: &str) -> Tiered {
        let (tiered, told) = Tiered::over(&[("disk", "tier", "256M")], size);
        assert!(told.contains("over one lower tier"), "{told}");
        tiered
    }

    /// A store over lower tiers, each with its name, folder and size. Answers what `mkfs` told.
    pub fn over(tiers: &[(&str, &str, &str)], size: &str) -> (Tiered, String) {
        let (place, disk) = (TestFolder::new(), tempfile::tempdir_in("/var/tmp").unwrap());
        let of = |&(name, folder, size): &(&str, &str, &str)| {
            ["--tier".to_owned(), format!("{name}={}:{size}", disk.path().join(folder).display())]
        };
        let tiers: Vec<String> = tiers.iter().flat_map(of).collect();
        let mut arguments = vec!["mkfs", "store", "--medium", "memory", "--nvm", size];
        arguments.extend(tiers.iter().map(String::as_str));
        let made = place.cuesta(&arguments);
        assert_eq!(made.status(), 0, "{}", made.errors());
        (Tiered { place, disk }, made.text())
    }

    /// Puts lines into the configuration, for the next daemon.
    pub fn configure(&self, lines: &str) {
        let configuration = self.place.path("store/cuesta.toml");
        let text = std::fs::read_to_string(&configuration).unwrap();
        std::fs::write(&configuration, format!("{lines}\n{text}")).unwrap();
    }

    pub fn tier(&self) -> PathBuf {
        self.disk.path().join("tier")
    }

    pub fn python(&self, script: &str) -> Ended {
        let script = format!("import errno, os, random\n{script}");
        self.place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script])
    }

    #[track_caller]
    pub fn ran(&self, script: &str) -> String {
        let ended = self.python(script);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
        ended.text()
    }

    /// Bytes that files have in each tier, once all logs are digested.
    pub fn used(&self) -> Vec<u64> {
        assert_eq!(self.place.cuesta(&["explain", "--store", "store", "/cuesta"]).status(), 0);
        let listed = self.place.cuesta(&["tier", "list", "--json", "store"]).text();
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let tiers = listed["tiers"].as_array().unwrap();
        tiers.iter().map(|tier| tier["bytes_used"].as_u64().unwrap()).collect()
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.place.cuesta(&["status", "--json", "store"]).text()).unwrap()
    }

    pub fn stop(&self) {
        assert_eq!(self.place.cuesta(&["stop", "store"]).status(), 0);
    }
}

impl Tiered {
    /// Moves what lies below a path, and answers what the command told.
    #[track_caller]
    pub fn migrated(&self, path: &str, to: &str) -> serde_json::Value {
        let ended = self.place.cuesta(&["migrate", "--store", "store", "--json", "--to", to, path]);
        assert!(ended.errors().is_empty(), "{}", ended.errors());
        serde_json::from_str(&ended.text()).unwrap()
    }

    /// A program that has said that it is there, and waits for a line.
    #[track_caller]
    pub fn begin(&self, script: &str) -> Conversation {
        let script = format!("import errno, os, random\n{TREE}{script}");
        let mut program = Conversation::with(&self.place, &script);
        assert_eq!(program.line().trim(), "there");
        program
    }

    #[track_caller]
    pub fn assert_sound(&self) {
        self.stop();
        let checked = self.place.cuesta(&["fsck", "store", "--content"]);
        assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
    }
}
