//! Promises that any thread may settle.

use napi::bindgen_prelude::{Object, ToNapiValue};
use napi::{Env, JsDeferred};

use crate::engine::Settle;
use crate::errors::to_napi;

type Resolver<U> = Box<dyn FnOnce(Env) -> napi::Result<U> + Send>;

/// A promise, and what settles it. `convert` runs on the event loop.
pub fn promise<'env, T, U, C>(env: &'env Env, convert: C) -> napi::Result<(Settle<T>, Object<'env>)>
where
    T: Send + 'static,
    U: ToNapiValue + 'static,
    C: FnOnce(T) -> U + Send + 'static,
{
    let (deferred, object): (JsDeferred<U, Resolver<U>>, _) = env.create_deferred()?;
    let settle: Settle<T> = Box::new(move |result| match result {
        Ok(value) => deferred.resolve(Box::new(move |_| Ok(convert(value)))),
        Err(error) => deferred.reject(to_napi(error)),
    });
    Ok((settle, object))
}
