//! A program in Python that a test talks with, line by line.

use super::TestFolder;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};

/// A program that says a line, and waits for one.
pub struct Conversation {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Conversation {
    pub fn with(place: &TestFolder, script: &str) -> Conversation {
        let mut command = place.command(&["run", "--store", "store", "--", "python3", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Conversation { child, says }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line
    }

    pub fn go_on(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }
}

impl Conversation {
    /// Has the program go on to its end, which is a good one.
    #[track_caller]
    pub fn succeeds(mut self) {
        self.go_on();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
