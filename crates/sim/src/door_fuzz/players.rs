//! Both players with the store and the folders they play in.

use super::player::{END, SLOWLY};
use super::sequence::Call;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Far more than a sequence needs.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Bytes of the store.
pub const STORE_BYTES: u64 = 512 << 20;

/// A player and the pipes to it.
struct Player {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Player {
    fn start(command: &mut Command) -> io::Result<Player> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a player without pipes"));
        };
        Ok(Player { child, input, output: BufReader::new(output) })
    }

    fn ask(&mut self, calls: &[Call], slowly: bool) -> io::Result<()> {
        if slowly {
            writeln!(self.input, "{SLOWLY}")?;
        }
        let text: String = calls.iter().map(|call| format!("{call}\n")).collect();
        self.input.write_all(format!("{text}\n").as_bytes())
    }

    fn answer(&mut self) -> io::Result<String> {
        let mut told = String::new();
        loop {
            if self.output.buffer().is_empty()
                && poll(&mut [PollFd::new(self.output.get_ref(), PollFlags::IN)], Some(&PATIENCE))? == 0
            {
                return Err(io::Error::other("the player does not answer"));
            }
            let mut line = Vec::new();
            if self.output.read_until(b'\n', &mut line)? == 0 {
                return Err(io::Error::other(format!("the player has ended: {}", self.child.wait()?)));
            }
            let line = String::from_utf8_lossy(&line);
            if line.trim_end() == END {
                return Ok(told);
            }
            told.push_str(&line);
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two transcripts: by the door, and on the disk.
pub struct Transcripts {
    /// By the player on the disk.
    pub disk: String,
    /// By the player under the door.
    pub door: String,
}

/// Both players.
pub struct Players {
    cuesta: PathBuf,
    fuzzer: PathBuf,
    folder: TempDir,
    store: TempDir,
    outside: TempDir,
    /// Where the players' enclosures are made.
    root: TempDir,
    pair: Option<[Player; 2]>,
}

impl Players {
    /// Makes a store and starts the players.
    ///
    /// # Errors
    ///
    /// A command fails.
    pub fn new(cuesta: &Path, fuzzer: &Path, on_disk: &Path) -> io::Result<Players> {
        let folder = tempfile::Builder::new().prefix("door-").tempdir_in(on_disk)?;
        let store = crate::programs::stores::folder(None, "cuesta-door-")?;
        // The kernel has nothing where the store appears: where it has something, paths are looked at in another way.
        std::fs::create_dir(folder.path().join("at1"))?;
        // Of another file system than the directory on the disk, as it is of another than the store.
        let outside = crate::programs::stores::folder(None, "door-outside-")?;
        let status = Command::new(cuesta)
            .arg("mkfs")
            .arg(store.path().join("store"))
            .args(["--medium", "memory", "--nvm", &STORE_BYTES.to_string()])
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            return Err(io::Error::other(format!("mkfs: {status}")));
        }
        let (cuesta, fuzzer) = (cuesta.to_owned(), fuzzer.to_owned());
        let root = tempfile::Builder::new().prefix("door-root-").tempdir_in(on_disk)?;
        Ok(Players { cuesta, fuzzer, folder, store, outside, root, pair: None })
    }

    fn start(&self) -> io::Result<[Player; 2]> {
        // The daemon stays outside.
        let ready = self.inside_store(Command::new(&self.cuesta)).arg("true").status()?;
        if !ready.success() {
            return Err(io::Error::other(format!("cuesta run: {ready}")));
        }
        Ok([self.start_player("1")?, self.start_player("2")?])
    }

    fn at(&self, number: &str) -> PathBuf {
        self.folder.path().join(format!("at{number}"))
    }

    fn inside_store(&self, mut command: Command) -> Command {
        command.arg("run").arg("--store").arg(self.store.path().join("store")).arg("--at").arg(self.at("2"));
        command.arg("--");
        command
    }

    fn start_player(&self, number: &str) -> io::Result<Player> {
        let root = self.root.path().join(number);
        std::fs::create_dir_all(&root)?;
        let mut command = Command::new(&self.fuzzer);
        command.arg("enclosed").arg(root).env("LC_ALL", "C");
        let memory = std::fs::read_link(self.store.path().join("store/nvm")).ok();
        // Above where they play neither player can change anything, so that they do not meet there.
        let own = self.at("1");
        let folders =
            [own.as_path(), self.store.path(), self.outside.path()].into_iter().chain(memory.as_deref());
        for folder in folders {
            command.arg("--folder").arg(folder);
        }
        command.arg("--");
        if number == "2" {
            command.arg(&self.cuesta);
            command = self.inside_store(command);
        }
        let outside = self.outside.path().join(format!("out{number}"));
        command.arg(&self.fuzzer).arg("play").arg(self.at(number).join("w")).arg(outside);
        Player::start(&mut command)
    }

    /// Has both play a sequence; `slowly`, so that times differ by calls.
    ///
    /// # Errors
    ///
    /// One of them does not answer.
    pub fn play(&mut self, calls: &[Call], slowly: bool) -> io::Result<Transcripts> {
        let mut pair = match self.pair.take() {
            Some(pair) => pair,
            None => self.start()?,
        };
        for player in &mut pair {
            player.ask(calls, slowly)?;
        }
        let [disk, door] = &mut pair;
        let transcripts = Transcripts { disk: disk.answer()?, door: door.answer()? };
        self.pair = Some(pair);
        Ok(transcripts)
    }

    /// Has one play a sequence after the other.
    ///
    /// # Errors
    ///
    /// One of them does not answer.
    pub fn play_in_turn(&mut self, calls: &[Call], slowly: bool) -> io::Result<Transcripts> {
        let mut pair = match self.pair.take() {
            Some(pair) => pair,
            None => self.start()?,
        };
        let play = |player: &mut Player| player.ask(calls, slowly).and_then(|()| player.answer());
        let [disk, door] = &mut pair;
        let transcripts = Transcripts { disk: play(disk)?, door: play(door)? };
        self.pair = Some(pair);
        Ok(transcripts)
    }
}

impl Drop for Players {
    fn drop(&mut self) {
        self.pair = None;
        let store = self.store.path().join("store");
        let _ = Command::new(&self.cuesta)
            .arg("stop")
            .arg(&store)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if let Ok(memory) = std::fs::read_link(store.join("nvm")) {
            let _ = std::fs::remove_dir_all(memory);
        }
    }
}
