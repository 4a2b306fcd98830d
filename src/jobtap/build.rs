// SPDX-License-Identifier: LGPL-3.0-only
//! Jansson values made straight from what serde serializes.
//!
//! Flux takes the answer to a query as a text, reads it, and writes it anew. A document of a hundred thousand records need
//! not become a text before it becomes one.

use jansson_sys as jansson;
use jansson_sys::json_t;
use serde::Serialize;
use serde::ser::{self, Impossible, Serializer};
use std::ffi::c_char;
use std::fmt;
use std::ptr::NonNull;

/// A value that is ours to give away.
pub(super) struct Owned(NonNull<json_t>);

impl Owned {
    /// # Safety
    /// `value` is null, or a reference that jansson made for us.
    unsafe fn new(value: *mut json_t) -> Result<Self, Unfit> {
        NonNull::new(value).map(Owned).ok_or(Unfit("jansson could not make a value"))
    }

    pub(super) fn as_ptr(&self) -> *mut json_t {
        self.0.as_ptr()
    }

    /// Gives the reference away, to a call that takes it over in any case.
    fn into_raw(self) -> *mut json_t {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { jansson::json_decref(self.0.as_ptr()) };
    }
}

/// The value has no form in Flux's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit(pub &'static str);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unfit {}

impl ser::Error for Unfit {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Unfit("a value refuses to be written")
    }
}

/// Makes a jansson value.
pub(super) fn build<T: Serialize + ?Sized>(value: &T) -> Result<Owned, Unfit> {
    value.serialize(Build)
}

struct Build;

/// An array or object under way.
struct Members {
    whole: Owned,
    key: Option<Owned>,
}

const NO_VARIANTS: Unfit = Unfit("a variant with data");

fn integer(value: i64) -> Result<Owned, Unfit> {
    // SAFETY: jansson returns a new reference or null.
    unsafe { Owned::new(jansson::json_integer(value)) }
}

fn text(value: &str) -> Result<Owned, Unfit> {
    // SAFETY: the bytes are UTF-8, and are copied.
    unsafe { Owned::new(jansson::json_stringn_nocheck(value.as_ptr().cast::<c_char>(), value.len())) }
}

fn null() -> Result<Owned, Unfit> {
    // SAFETY: as above.
    unsafe { Owned::new(jansson::json_null()) }
}

fn array() -> Result<Members, Unfit> {
    // SAFETY: as above.
    let whole = unsafe { Owned::new(jansson::json_array()) }?;
    Ok(Members { whole, key: None })
}

fn object() -> Result<Members, Unfit> {
    // SAFETY: as above.
    let whole = unsafe { Owned::new(jansson::json_object()) }?;
    Ok(Members { whole, key: None })
}

impl Members {
    fn push(&mut self, value: Owned) -> Result<(), Unfit> {
        // SAFETY: the array is alive; jansson takes the value over in any case.
        let rc = unsafe { jansson::json_array_append_new(self.whole.as_ptr(), value.into_raw()) };
        if rc < 0 { Err(Unfit("jansson could not extend an array")) } else { Ok(()) }
    }

    /// # Safety
    /// `key` is a C string in UTF-8.
    unsafe fn set(&mut self, key: *const c_char, value: Owned) -> Result<(), Unfit> {
        // SAFETY: the object is alive, the key is copied; jansson takes the value over in any case.
        let rc = unsafe { jansson::json_object_set_new_nocheck(self.whole.as_ptr(), key, value.into_raw()) };
        if rc < 0 { Err(Unfit("jansson could not extend an object")) } else { Ok(()) }
    }

    fn set_member(&mut self, key: &Owned, value: Owned) -> Result<(), Unfit> {
        // SAFETY: jansson returns null for what is no string, else a C string that lives as long as the key.
        let name = unsafe { jansson::json_string_value(key.as_ptr()) };
        if name.is_null() {
            return Err(Unfit("a key that is no string"));
        }
        // SAFETY: see above.
        unsafe { self.set(name, value) }
    }

    fn set_field(&mut self, key: &'static str, value: Owned) -> Result<(), Unfit> {
        // Most names fit; a longer one is written by jansson.
        let mut name = [0u8; 48];
        match name.get_mut(..key.len()) {
            Some(place) if key.len() < 48 => place.copy_from_slice(key.as_bytes()),
            _ => return self.set_member(&text(key)?, value),
        }
        // SAFETY: the name ends with a NUL that was not written over.
        unsafe { self.set(name.as_ptr().cast::<c_char>(), value) }
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<Owned, Unfit> {
            i64::try_from(value).map_err(|_| Unfit("an integer beyond 64 bits")).and_then(integer)
        })*
    };
}

impl Serializer for Build {
    type Ok = Owned;
    type Error = Unfit;
    type SerializeSeq = Members;
    type SerializeTuple = Members;
    type SerializeTupleStruct = Members;
    type SerializeTupleVariant = Impossible<Owned, Unfit>;
    type SerializeMap = Members;
    type SerializeStruct = Members;
    type SerializeStructVariant = Impossible<Owned, Unfit>;

    integers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_bool(self, value: bool) -> Result<Owned, Unfit> {
        // SAFETY: both are constants of jansson's.
        unsafe { Owned::new(if value { jansson::json_true() } else { jansson::json_false() }) }
    }

    fn serialize_f32(self, value: f32) -> Result<Owned, Unfit> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<Owned, Unfit> {
        // SAFETY: jansson returns a new reference, or null for what is no finite number.
        unsafe { Owned::new(jansson::json_real(value)) }
    }

    fn serialize_char(self, value: char) -> Result<Owned, Unfit> {
        text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<Owned, Unfit> {
        text(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Owned, Unfit> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<Owned, Unfit> {
        null()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Owned, Unfit> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Owned, Unfit> {
        null()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Owned, Unfit> {
        null()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Owned, Unfit> {
        text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Owned, Unfit> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Owned, Unfit> {
        Err(NO_VARIANTS)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Members, Unfit> {
        array()
    }

    fn serialize_tuple(self, _: usize) -> Result<Members, Unfit> {
        array()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Members, Unfit> {
        array()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unfit> {
        Err(NO_VARIANTS)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members, Unfit> {
        object()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members, Unfit> {
        object()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Unfit> {
        Err(NO_VARIANTS)
    }
}

macro_rules! array_members {
    ($($trait:ident :: $method:ident),*) => {
        $(impl ser::$trait for Members {
            type Ok = Owned;
            type Error = Unfit;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unfit> {
                self.push(build(value)?)
            }

            fn end(self) -> Result<Owned, Unfit> {
                Ok(self.whole)
            }
        })*
    };
}

array_members!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field
);

impl ser::SerializeStruct for Members {
    type Ok = Owned;
    type Error = Unfit;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Unfit> {
        self.set_field(key, build(value)?)
    }

    fn end(self) -> Result<Owned, Unfit> {
        Ok(self.whole)
    }
}

impl ser::SerializeMap for Members {
    type Ok = Owned;
    type Error = Unfit;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unfit> {
        self.key = Some(build(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unfit> {
        let key = self.key.take().ok_or(Unfit("a value without a key"))?;
        self.set_member(&key, build(value)?)
    }

    fn end(self) -> Result<Owned, Unfit> {
        Ok(self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::{Unfit, build};
    use jansson_sys as jansson;
    use serde::Serialize;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use std::ffi::CStr;

    fn written<T: Serialize>(value: &T) -> Value {
        let built = build(value).expect("it has a form");
        // SAFETY: the value is alive; the text is a C string that is ours to free, and is left to the end of the test.
        let text = unsafe { CStr::from_ptr(jansson::json_dumps(built.as_ptr(), 0)) };
        serde_json::from_str(text.to_str().expect("UTF-8")).expect("JSON")
    }

    #[derive(Serialize)]
    struct Sample<'a> {
        text: &'a str,
        a_name_that_is_longer_than_the_place_for_names_on_the_stack_has_room: Option<u64>,
        pair: (u32, f64),
        map: BTreeMap<String, Vec<i64>>,
        none: Option<&'a str>,
        #[serde(flatten)]
        more: More,
    }

    #[derive(Serialize)]
    struct More {
        flag: bool,
    }

    #[test]
    fn what_is_built_is_what_serde_writes() {
        let sample = Sample {
            text: "größe \"队列\" \u{1}",
            a_name_that_is_longer_than_the_place_for_names_on_the_stack_has_room: Some(7),
            pair: (u32::MAX, 0.1),
            map: [("a".to_owned(), vec![i64::MIN, 0]), (String::new(), vec![])].into(),
            none: None,
            more: More { flag: true },
        };
        assert_eq!(written(&sample), json!(sample));
        for value in [json!({}), json!([]), json!({"a": [1, {"b": [null, true, "x", 1.5]}]})] {
            assert_eq!(written(&value), value);
        }
    }

    #[test]
    fn what_has_no_form_is_refused() {
        assert_eq!(build(&u64::MAX).err(), Some(Unfit("an integer beyond 64 bits")));
        assert_eq!(build(&f64::NAN).err(), Some(Unfit("jansson could not make a value")));
        assert_eq!(build(&BTreeMap::from([(1, 2)])).err(), Some(Unfit("a key that is no string")));
    }
}
