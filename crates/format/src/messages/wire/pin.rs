//! Pins of content to tiers ([`crate::pin`]), as commands change them and are told of them.

use crate::TierNumber;
use serde::{Deserialize, Serialize};

/// A change of the pin of a file or a directory (`cuesta pin`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinChange {
    /// The rule for names that match this is meant; `None`: the rule for all, or the pin as a whole.
    pub pattern: Option<String>,
    /// Where content is to lie: a tier's name or number; `None`: the rule goes, or all of them do.
    pub tier: Option<String>,
}

/// The pin that a file or a directory follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedPin {
    /// The rule; `None`: a directory's own rules are for some names only.
    pub rule: Option<String>,
    /// The tier that the rule names, if the store has it.
    pub tier: Option<TierNumber>,
    /// The file or directory that has the pin: a path below the root.
    #[serde(with = "serde_bytes")]
    pub at: Vec<u8>,
    /// All rules, if it is the file or directory itself that has them.
    pub rules: Vec<String>,
}
