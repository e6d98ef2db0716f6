//! A thread that makes calls in a root of its own, so that absolute symlinks and `..` mean the same in every tree that is
//! compared. Needs root.

use crate::operations::operation::{Operation, Outcome, PathText};
use crate::operations::posix::{Posix, Times};
use crate::operations::tree::Tree;
use rustix::io::Errno;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The answer of a call.
pub type Answer = Result<Outcome, Errno>;

/// A thread whose root is a directory, as plain libc calls see it.
pub struct Visitor {
    asks: Option<Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

enum Question {
    Call(Operation, Sender<Answer>),
    Walk(Sender<Result<Tree, Errno>>),
    Times(PathText, Sender<Result<Times, Errno>>),
}

impl Visitor {
    /// One below `root`.
    #[must_use]
    pub fn new(root: &Path) -> Visitor {
        let (asks, asked) = channel();
        let root = root.to_owned();
        let thread = std::thread::spawn(move || visit(&root, &asked));
        Visitor { asks: Some(asks), thread: Some(thread) }
    }

    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Question) -> T {
        let (answers, answered) = channel();
        self.asks.as_ref().expect("it goes on").send(question(answers)).expect("the thread goes on");
        answered.recv().expect("the thread goes on")
    }

    /// Makes a call.
    pub fn apply(&self, operation: &Operation) -> Answer {
        self.ask(|answers| Question::Call(operation.clone(), answers))
    }

    /// Everything there is.
    pub fn tree(&self) -> Result<Tree, String> {
        self.ask(Question::Walk).map_err(|errno| format!("walk by a visitor: {errno}"))
    }

    /// When what a path names was changed.
    pub fn times(&self, path: &PathText) -> Result<Times, Errno> {
        self.ask(|answers| Question::Times(path.clone(), answers))
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn visit(root: &Path, asked: &Receiver<Question>) {
    // SAFETY: only this thread's root, working directory and umask become its own.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_FS) }, 0);
    rustix::process::chroot(root).expect("root may");
    rustix::process::chdir("/").expect("it is there");
    // SAFETY: umask cannot fail.
    unsafe { libc::umask(0) };
    let mut posix = Posix::new("");
    for question in asked {
        // The asking thread may be gone after a failure.
        match question {
            Question::Call(operation, answers) => drop(answers.send(posix.apply(&operation))),
            Question::Walk(answers) => drop(answers.send(posix.tree())),
            Question::Times(path, answers) => drop(answers.send(posix.times(&path))),
        }
    }
}
