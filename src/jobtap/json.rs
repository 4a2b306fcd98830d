// SPDX-License-Identifier: LGPL-3.0-only
//! A borrowed view of a jansson value that a callback received. Reading it copies nothing.

use jansson_sys as jansson;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A flag of jansson: dump any value, not only an object or array.
const ENCODE_ANY: usize = 0x200;

/// A JSON value owned by the callback's arguments, which live as long as `'a`.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    value: NonNull<jansson::json_t>,
    owner: PhantomData<&'a ()>,
}

impl<'a> Json<'a> {
    /// # Safety
    /// `value` is null or a jansson value that stays alive and unchanged for `'a`.
    pub(super) unsafe fn borrow(value: *mut jansson::json_t) -> Option<Self> {
        NonNull::new(value).map(|value| Json { value, owner: PhantomData })
    }

    /// Parses `text`, and passes the value to `read`. Fails with jansson's reason if jansson refuses `text`. jansson accepts only an
    /// object or an array.
    pub fn parse<R>(text: &str, read: impl FnOnce(Json<'_>) -> R) -> Result<R, String> {
        let mut error =
            jansson::json_error_t { line: 0, column: 0, position: 0, source: [0; 80], text: [0; 160] };
        // SAFETY: jansson reads `text.len()` bytes and keeps no pointer to them or to the error.
        let value = unsafe { jansson::json_loadb(text.as_ptr().cast(), text.len(), 0, &raw mut error) };
        // SAFETY: the value is null, or alive until its only reference is dropped below.
        let Some(parsed) = (unsafe { Json::borrow(value) }) else {
            // SAFETY: jansson fills `text` with a C string.
            let reason = unsafe { CStr::from_ptr(error.text.as_ptr()) };
            return Err(reason.to_string_lossy().into_owned());
        };
        let result = read(parsed);
        // SAFETY: this function owns the reference and does not use it afterwards.
        unsafe { jansson::json_decref(value) };
        Ok(result)
    }

    /// Returns the pointer to the value.
    pub(super) fn as_ptr(self) -> *mut jansson::json_t {
        self.value.as_ptr()
    }

    fn kind(self) -> jansson::json_type {
        // SAFETY: the value is alive for 'a (contract of `borrow`); its type never changes.
        unsafe { (*self.value.as_ptr()).type_ }
    }

    /// Returns the member `key` of an object, or `None` if the value is not an object or has no such member.
    pub fn get(self, key: &CStr) -> Option<Json<'a>> {
        // SAFETY: jansson accepts any value here and returns a member borrowed from it, or null.
        unsafe { Json::borrow(jansson::json_object_get(self.value.as_ptr(), key.as_ptr())) }
    }

    /// Returns the members of an array; no members if the value is not an array.
    pub fn items(self) -> impl DoubleEndedIterator<Item = Json<'a>> {
        // SAFETY: jansson accepts any value here, and returns 0 if it is not an array.
        let size = unsafe { jansson::json_array_size(self.value.as_ptr()) };
        // SAFETY: jansson accepts any value and index, and returns a member borrowed from the array, or null.
        (0..size).filter_map(move |index| unsafe {
            Json::borrow(jansson::json_array_get(self.value.as_ptr(), index))
        })
    }

    /// Returns the text, if the value is a string in UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        // SAFETY: jansson returns null if the value is not a string, otherwise bytes that live as long as the value.
        let bytes = unsafe {
            let text = jansson::json_string_value(self.value.as_ptr());
            if text.is_null() {
                return None;
            }
            std::slice::from_raw_parts(text.cast::<u8>(), jansson::json_string_length(self.value.as_ptr()))
        };
        std::str::from_utf8(bytes).ok()
    }

    /// Returns the number, if the value is an integer.
    pub fn as_int(self) -> Option<i64> {
        let is_int = matches!(self.kind(), jansson::json_type::JSON_INTEGER);
        // SAFETY: the value is an integer, alive for 'a.
        is_int.then(|| unsafe { jansson::json_integer_value(self.value.as_ptr()) })
    }

    /// Returns the number, if the value is an integer or real.
    pub fn as_number(self) -> Option<f64> {
        let is_number =
            matches!(self.kind(), jansson::json_type::JSON_INTEGER | jansson::json_type::JSON_REAL);
        // SAFETY: the value is a number, alive for 'a.
        is_number.then(|| unsafe { jansson::json_number_value(self.value.as_ptr()) })
    }

    /// Returns true if the value is an array.
    pub fn is_array(self) -> bool {
        matches!(self.kind(), jansson::json_type::JSON_ARRAY)
    }

    /// Returns true if the value is an object.
    pub fn is_object(self) -> bool {
        matches!(self.kind(), jansson::json_type::JSON_OBJECT)
    }

    /// Returns the value as JSON text.
    pub fn text(self) -> String {
        let mut text: Vec<u8> = Vec::new();
        // SAFETY: the value is alive for 'a; jansson calls `append_piece` with pieces of the text and with `bytes`
        // before it returns.
        unsafe {
            jansson::json_dump_callback(self.value.as_ptr(), append_piece, (&raw mut text).cast(), ENCODE_ANY)
        };
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns the name of the value's type with its article, for an error text.
    pub fn describe_type(self) -> &'static str {
        match self.kind() {
            jansson::json_type::JSON_OBJECT => "an object",
            jansson::json_type::JSON_ARRAY => "an array",
            jansson::json_type::JSON_STRING => "a string",
            jansson::json_type::JSON_INTEGER => "an integer",
            jansson::json_type::JSON_REAL => "a real number",
            jansson::json_type::JSON_TRUE | jansson::json_type::JSON_FALSE => "a boolean",
            jansson::json_type::JSON_NULL => "null",
        }
    }
}

/// Appends `piece`, `size` bytes of JSON text, to the vector behind `to`.
unsafe extern "C" fn append_piece(piece: *const c_char, size: usize, to: *mut c_void) -> c_int {
    // SAFETY: contract of json_dump_callback: `piece` has `size` bytes, and `to` is the pointer that was given to it.
    unsafe {
        let to = &mut *to.cast::<Vec<u8>>();
        to.extend_from_slice(std::slice::from_raw_parts(piece.cast::<u8>(), size));
    }
    0
}
