//! The changes of a vfork child, until it is gone.

use crate::calls::programs::exec_image::ExecImage;
use crate::descriptors::current_directory::Current;
use crate::descriptors::description::Pin;
use crate::process::ChildSession;
use crate::users::ruleset::Ruleset;
use crate::users::thread_credentials::ThreadCredentials;
use cuesta_libfs::Confinement;
use std::sync::Arc;

/// The changes of a vfork child. Of its descriptors the last change for a number counts, `None` is closed.
#[derive(Debug, Default)]
pub struct Delta {
    pub(crate) changes: Vec<(usize, Option<Pin>)>,
    /// Memory the child's exec needs, kept until the child is gone.
    pub exec: Option<ExecImage>,
    /// The session the child attached, if its parent had none.
    pub session: Option<ChildSession>,
    /// The credentials of the child's calls, as it asked for them.
    pub credentials: Option<ThreadCredentials>,
    /// The child's Landlock rules, with its parent's.
    pub confinement: Option<Arc<Confinement>>,
    /// The rulesets the child has made.
    pub rulesets: Vec<Ruleset>,
    /// Whether its parent waits until it is gone, as far as that is in doubt.
    pub is_of_suspending_child: bool,
    /// Whether its descriptors are its parent's, so that what it changed of them stays.
    pub is_parents_too: bool,
    /// Whether it has made children, on the same state.
    pub has_children: bool,
    /// Where the child went, if it changed its working directory: `None` within is out of the store.
    pub directory: Option<Option<Current>>,
}

impl Delta {
    pub(crate) fn find(&self, fd: usize) -> Option<&Option<Pin>> {
        self.changes.iter().rev().find(|change| change.0 == fd).map(|change| &change.1)
    }
}
