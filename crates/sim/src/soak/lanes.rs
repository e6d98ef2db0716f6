//! Which programs of which users work where.

/// The user of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The store's own: its processes have sessions.
    Owner,
    /// Another: its processes are served call by call.
    Other,
    /// One whom nothing on the store belongs to.
    Stranger,
}

/// Made up: a soak that root runs can become them.
const OTHER: u32 = 64_001;
const STRANGER: u32 = 64_002;

impl User {
    /// The number of user and group; none: the user that runs the soak.
    #[must_use]
    pub fn id(self) -> Option<u32> {
        match self {
            User::Owner => None,
            User::Other => Some(OTHER),
            User::Stranger => Some(STRANGER),
        }
    }
}

/// A script, and the place it works in.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// How it is called.
    pub name: &'static str,
    /// Its folder on the store.
    pub place: &'static str,
    /// The folder's mode, if the lane makes it.
    pub mode: Option<&'static str>,
    /// The script's name.
    pub script: &'static str,
    /// An argument of the script.
    pub argument: Option<&'static str>,
    /// A process each is at work there at the same time.
    pub users: &'static [User],
    /// What python3 must have.
    pub needs: Option<&'static str>,
}

/// The scripts, by their names.
pub(super) const SCRIPTS: [(&str, &str); 9] = [
    ("append.py", include_str!("jobs/append.py")),
    ("build.sh", include_str!("jobs/build.sh")),
    ("git.sh", include_str!("jobs/git.sh")),
    ("mapped.py", include_str!("jobs/mapped.py")),
    ("replace.sh", include_str!("jobs/replace.sh")),
    ("shared.py", include_str!("jobs/shared.py")),
    ("spy.py", include_str!("jobs/spy.py")),
    ("sqlite.sh", include_str!("jobs/sqlite.sh")),
    ("tree.sh", include_str!("jobs/tree.sh")),
];

const fn lane(name: &'static str, script: &'static str, users: &'static [User]) -> Lane {
    Lane { name, place: name, mode: Some("755"), script, argument: None, users, needs: None }
}

const OWNER: &[User] = &[User::Owner];
const TWICE_OWNER: &[User] = &[User::Owner, User::Owner];
const OTHER_USER: &[User] = &[User::Other];

/// All of them. Users other than the store's cannot share mappings: so they have neither LMDB nor a write-ahead log.
#[must_use]
pub fn lanes() -> Vec<Lane> {
    vec![
        Lane { argument: Some("WAL"), ..lane("owner-sqlite-wal", "sqlite.sh", TWICE_OWNER) },
        Lane { argument: Some("PERSIST"), ..lane("owner-sqlite", "sqlite.sh", TWICE_OWNER) },
        Lane { needs: Some("lmdb"), ..lane("owner-lmdb", "mapped.py", TWICE_OWNER) },
        lane("owner-git", "git.sh", OWNER),
        lane("owner-tree", "tree.sh", OWNER),
        lane("owner-build", "build.sh", OWNER),
        lane("owner-replace", "replace.sh", OWNER),
        Lane { mode: Some("711"), ..lane("owner-append", "append.py", OWNER) },
        Lane { argument: Some("DELETE"), ..lane("other-sqlite", "sqlite.sh", &[User::Other, User::Other]) },
        lane("other-git", "git.sh", OTHER_USER),
        lane("other-tree", "tree.sh", OTHER_USER),
        lane("other-build", "build.sh", OTHER_USER),
        lane("other-replace", "replace.sh", OTHER_USER),
        Lane { mode: Some("711"), ..lane("other-append", "append.py", OTHER_USER) },
        Lane { mode: Some("777"), ..lane("shared", "shared.py", &[User::Owner, User::Other]) },
        Lane { place: "owner-append", mode: None, ..lane("other-spy", "spy.py", OTHER_USER) },
        Lane { place: "other-append", mode: None, ..lane("stranger-spy", "spy.py", &[User::Stranger]) },
    ]
}
