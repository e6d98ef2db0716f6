//! The sender of a request. The kernel has checked its rights, with its capabilities, groups and name spaces. So
//! LibFS gets credentials that pass every check of the kernel's, and
//! lack the capabilities about which the kernel leaves the decision to a file system.

use crate::kernel::abi::InHeader;
use cuesta_libfs::{Capabilities, Capability, Credentials};

/// Capabilities that the kernel does not check for a file system.
const DECIDED_HERE: [Capability; 3] = [Capability::KeepSetId, Capability::Administer, Capability::PassQuotas];

/// The credentials of a request's sender.
pub(super) fn asks(header: &InHeader) -> Credentials {
    let capabilities = if header.uid == 0 {
        Capabilities::ALL
    } else {
        Capabilities::from_bits(!DECIDED_HERE.iter().fold(0, |bits, &one| bits | 1 << one as u8))
    };
    Credentials {
        uid: header.uid,
        gid: header.gid,
        groups: Vec::new(),
        capabilities,
        confinement: None,
        is_plain: false,
    }
}

/// The same for what the kernel has taken set-id bits from already, where its sender may not set them.
pub(super) fn trusted(header: &InHeader) -> Credentials {
    let asking = asks(header);
    if header.uid == 0 {
        return asking;
    }
    let kept = 1 << Capability::KeepSetId as u8;
    let others = DECIDED_HERE.iter().fold(0, |bits, &one| bits | 1 << one as u8);
    Credentials { capabilities: Capabilities::from_bits(!others | kept), ..asking }
}

/// The same for a write of which the kernel says that set-id bits go: its sender has not the capability to keep them, be it root.
pub(super) fn takes_set_id(header: &InHeader) -> Credentials {
    let kept = 1 << Capability::KeepSetId as u8;
    Credentials { capabilities: Capabilities::from_bits(!kept), ..asks(header) }
}

/// Whether the sender keeps set-id bits where the kernel does not say so: root does, unless it has given the capability up.
pub(super) fn keeps_set_id(header: &InHeader) -> bool {
    if header.uid != 0 {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", header.pid)).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_none_or(|bits| bits & 1 << Capability::KeepSetId as u8 != 0)
}

/// Credentials of a sender that only looks.
pub(super) fn onlooker() -> Credentials {
    Credentials { capabilities: Capabilities::ALL, ..Credentials::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_than_root_lose_set_id_bits_and_keep_to_quotas() {
        let of = |uid| asks(&InHeader { uid, gid: 5, ..InHeader::default() });
        for capability in DECIDED_HERE {
            assert!(of(0).may(capability) && !of(7).may(capability), "{capability:?}");
        }
        assert!(of(7).may(Capability::OverrideAccess) && of(7).is_in_group(5));
    }
}
