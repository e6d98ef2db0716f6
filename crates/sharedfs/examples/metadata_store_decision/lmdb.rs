//! LMDB through heed, the alternative measured.

use super::{Batch, DIRENTS, EXTENTS, Failure, INODES, Layout, MAPPED_BYTES, Store, TABLES};
use heed::types::Bytes;
use std::path::Path;

pub struct Lmdb {
    environment: heed::Env,
    tables: Vec<heed::Database<Bytes, Bytes>>,
    layout: Layout,
}

impl Lmdb {
    pub fn open(layout: Layout, path: &Path) -> Result<Lmdb, Failure> {
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(MAPPED_BYTES).max_dbs(4);
        // SAFETY: no other process has the file, and the flag names it instead of a folder.
        let environment = unsafe {
            options.flags(heed::EnvFlags::NO_SUB_DIR);
            options.open(path)?
        };
        let mut transaction = environment.write_txn()?;
        let tables = TABLES
            .iter()
            .map(|name| environment.create_database(&mut transaction, Some(name)))
            .collect::<Result<_, _>>()?;
        transaction.commit()?;
        Ok(Lmdb { environment, tables, layout })
    }
}

impl Store for Lmdb {
    fn digest(&self, batch: &Batch) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn()?;
        for index in [DIRENTS, INODES, EXTENTS] {
            batch.each(self.layout, index, &mut |key, value| {
                Ok(self.tables[index].put(&mut transaction, key, value)?)
            })?;
        }
        Ok(transaction.commit()?)
    }

    fn update_inodes(&self, pairs: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn()?;
        for (key, value) in pairs {
            self.tables[INODES].put(&mut transaction, &key.to_be_bytes(), value)?;
        }
        Ok(transaction.commit()?)
    }

    fn look_up(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        let transaction = self.environment.read_txn()?;
        for key in keys {
            self.tables[DIRENTS].get(&transaction, key)?.ok_or("a name is missing")?;
        }
        Ok(())
    }
}
