//! Totals of the store, for `statfs` and `cuesta status`.

use crate::store::observe::Counters;
use crate::tiers::{TierArenas, blocks_in};
use crate::{Error, SharedFs};
use cuesta_format::wire::{SessionStatus, Status, StoreTotals, TierStatus};
use cuesta_format::{Medium, TierNumber};
use cuesta_media::emulate::PlayedDisk;
use std::sync::atomic::Ordering;

impl SharedFs {
    /// Totals for `statfs`.
    pub fn totals(&self) -> Result<StoreTotals, Error> {
        // On a full medium, or where nothing is written any more, closed inodes stay until their removal can
        // be committed.
        match self.look_for_closed() {
            Err(Error::NoSpace) => {}
            Err(_) if self.metadata.is_read_only() => {}
            looked => drop(looked?),
        }
        self.reclaim_all();
        let counters = self.metadata.read()?.counters()?;
        let beyond = self.mapped.beyond();
        let (free, promised) = {
            let space = self.space.lock();
            // Blocks of windows are a session's to use, as promised ones are.
            let held = space.windows.held();
            let free = space.credits.for_sessions(self.free_at_most(&space, beyond) + held);
            (free, space.credits.outstanding() + held)
        };
        Ok(StoreTotals {
            blocks: self.blocks_at_most(),
            blocks_free: free,
            blocks_promised: promised.min(free),
            inodes: counters.inodes,
            inodes_free: free,
        })
    }

    pub(crate) fn tiers(&self) -> Vec<TierStatus> {
        let space = self.space.lock();
        let name_of = |number: u8| self.options.tier.iter().find(|(_, tier)| tier.number == number);
        self.arenas
            .numbers()
            .map(|tier| {
                let number = tier.0;
                let (name, path) = match name_of(number) {
                    _ if tier == TierNumber::FAST => ("fast".to_owned(), self.named.display().to_string()),
                    Some((name, lower)) => (name.clone(), lower.path.display().to_string()),
                    None => (number.to_string(), String::new()),
                };
                TierStatus {
                    number: tier,
                    name,
                    path,
                    medium: self.arenas.tier(tier).map_or(Medium::Block, TierArenas::medium),
                    profile: name_of(number)
                        .map(|(_, lower)| lower.profile)
                        .filter(|profile| !profile.is_none()),
                    disk_use: self.arenas.tier(tier).ok().and_then(TierArenas::played).map(PlayedDisk::used),
                    draining: self.arenas.tier(tier).is_ok()
                        && self.arenas.why_failed(tier).is_none()
                        && !space.allocator.takes_writes(tier),
                    removing: name_of(number).is_some_and(|(_, lower)| lower.removing),
                    blocks: self.arenas.tier(tier).map_or(0, blocks_in),
                    blocks_used: space.allocator.used_blocks(tier),
                    blocks_pinned_outside: self.migration.pins.outside(tier),
                    missing: self.arenas.why_missing(tier).map(str::to_owned),
                    failed: self.arenas.why_failed(tier),
                }
            })
            .collect()
    }

    pub(super) fn status(&self) -> Result<Status, Error> {
        let totals = self.totals()?;
        let tiers = self.tiers();
        let optimistic_ms_max = self.shortest_bound().map(|bound| bound.as_millis() as u32);
        let unwritten_ms = optimistic_ms_max.and_then(|_| self.unwritten_milliseconds());
        let core = self.core.lock();
        let geometry = self.geometry();
        let sessions = core.sessions.values().map(|session| SessionStatus {
            session: session.id,
            pid: session.pid,
            program: session.program.clone(),
            log_bytes: session.undigested_bytes(),
            log_capacity_bytes: session.segments.len() as u64 * geometry.segment_bytes,
            leases: core.leases.count(session.id),
            operations: session.control.operations(),
            durability: session.durability(),
            node: session.node.map(|node| node.0),
        });
        let Counters { digested_entries, coalesced_entries, digested_bytes, .. } = &self.counters;
        let first_calls = self.first_calls.totals();
        let (bad_blocks, blocks_copied) = {
            let space = self.space.lock();
            (space.allocator.bad_blocks(), space.allocator.copies().blocks())
        };
        Ok(Status {
            store: self.superblock.store,
            medium: self.superblock.medium,
            emulated: self.profile(),
            persistence_domain: (self.superblock.medium == Medium::Pmem)
                .then(|| self.options.persistence_domain.of(self.region)),
            node: self.region.and_then(|region| region.node),
            free_on_nodes: {
                let space = self.space.lock();
                space.allocator.nodes().free().iter().map(|(node, &free)| (node.0, free)).collect()
            },
            bad_blocks,
            geometry,
            pid: std::process::id(),
            uptime_ms: self.opened.elapsed().as_millis() as u64,
            recovery_ms: self.recovered.milliseconds,
            recovered_entries: self.recovered.entries,
            totals,
            healed: self.metadata.healed(),
            tiers,
            blocks_demoted: self.counters.blocks_demoted.load(Ordering::Relaxed),
            blocks_promoted: self.counters.blocks_promoted.load(Ordering::Relaxed),
            blocks_copied,
            predictors: self
                .counters
                .predictions(core.sessions.values().map(|found| found.control.predictions())),
            refuses_writes: self.metadata.read_only().map(|why| why.to_string()),
            metadata_bytes: self.metadata.allocated_bytes(),
            digested_entries: digested_entries.load(Ordering::Relaxed),
            coalesced_entries: coalesced_entries.load(Ordering::Relaxed),
            digested_bytes: digested_bytes.load(Ordering::Relaxed),
            fences: self.counters.fences.load(Ordering::Relaxed),
            shipped: core.leases.shipped(self.opened.elapsed()),
            first_calls: first_calls.calls,
            never_attached: first_calls.never_attached,
            requests: self.request_times.summary(),
            sessions: sessions.collect(),
            durability: self.options.durability,
            optimistic_ms_max,
            unwritten_ms,
            has_unwritable_log: self.epochs.has_failed(),
            unserved: self.counters.unserved(core.sessions.values().map(|found| found.control.unserved())),
        })
    }
}
