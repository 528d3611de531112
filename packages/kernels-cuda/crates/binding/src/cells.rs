//! Single cells between the pool and typed arrays. The engine's thread copies them between two steps: no step reads or writes a cell
//! meanwhile, and a call that is sent before a step has its effect before it.

use napi::Env;
use napi::bindgen_prelude::{Int32ArraySlice, Object, Uint8Array, Uint8ArraySlice};
use napi_derive::napi;
use palimpsest_kernels::{Code, Error};

use crate::engine::Job;
use crate::errors::to_napi;
use crate::promise::promise;
use crate::runtime::{NativeRuntime, disposed};

#[napi]
impl NativeRuntime {
    /// Resolves with the bytes of the cells, one after another.
    #[napi(catch_unwind)]
    pub fn read_cells<'env>(&self, env: &'env Env, slots: Int32ArraySlice<'_>) -> napi::Result<Object<'env>> {
        self.check_slots(&slots)?;
        let (settle, object) = promise(env, Uint8Array::new)?;
        if let Err(Job::ReadCells { settle, .. }) = self.engine.send(Job::ReadCells { slots: slots.to_vec(), settle }) {
            settle(Err(disposed()));
        }
        Ok(object)
    }

    /// Takes a copy of `from`, which may change afterwards.
    #[napi(catch_unwind)]
    pub fn write_cells<'env>(&self, env: &'env Env, slots: Int32ArraySlice<'_>, from: Uint8ArraySlice<'_>) -> napi::Result<Object<'env>> {
        self.check_slots(&slots)?;
        let wanted = slots.len() * self.facts.shape.cell_bytes();
        if from.len() != wanted {
            let message = format!("{} cells have {wanted} bytes, {} came", slots.len(), from.len());
            return Err(to_napi(Error::at(Code::ArgumentInvalid, "from", message)));
        }
        let (settle, object) = promise(env, |()| ())?;
        let job = Job::WriteCells { slots: slots.to_vec(), bytes: from.to_vec(), settle };
        if let Err(Job::WriteCells { settle, .. }) = self.engine.send(job) {
            settle(Err(disposed()));
        }
        Ok(object)
    }

    /// Overwrites the cells with zeros.
    #[napi(catch_unwind)]
    pub fn clear_cells<'env>(&self, env: &'env Env, slots: Int32ArraySlice<'_>) -> napi::Result<Object<'env>> {
        self.check_slots(&slots)?;
        let (settle, object) = promise(env, |()| ())?;
        if let Err(Job::ClearCells { settle, .. }) = self.engine.send(Job::ClearCells { slots: slots.to_vec(), settle }) {
            settle(Err(disposed()));
        }
        Ok(object)
    }

    fn check_slots(&self, slots: &[i32]) -> napi::Result<()> {
        self.facts.shape.check_slots(slots).map_err(to_napi)
    }
}
