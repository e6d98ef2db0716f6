//! Of each log the longest part that others depend on.

use cuesta_format::{LogDependency, SessionId};
use std::collections::BTreeMap;

/// Of each log the longest part that others depend on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies(BTreeMap<SessionId, LogDependency>);

impl Dependencies {
    pub(crate) fn add(&mut self, dependency: LogDependency) {
        let longest = self.0.entry(dependency.session).or_insert(dependency);
        *longest = dependency.max(*longest);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = LogDependency> {
        self.0.values().copied()
    }
}
