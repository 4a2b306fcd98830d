// SPDX-License-Identifier: LGPL-3.0-only
//! A disk that fails on request: a VFS for SQLite that counts operations, and passes them to SQLite's own VFS.
//!
//! The failing VFS becomes the default of the process that calls [`install_failing_disk`]. All access to databases, journals, logs and their
//! shared memory passes through the failing VFS.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

/// How a disk operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only this operation fails. If it is a write, half of its bytes are written. The next operation
    /// succeeds.
    Once,
    /// The operation and all later operations fail, as if the disk were gone or locked.
    Gone,
    /// The operation and all later writes fail. Reads and removals succeed.
    Full,
}

static COUNTED: AtomicU64 = AtomicU64::new(0);
static FAILS_AT: AtomicU64 = AtomicU64::new(u64::MAX);
static GOES_ON: AtomicBool = AtomicBool::new(false);
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Makes operation `number` fail, counted from 1.
pub fn fail_operation(number: u64, fault: Fault) {
    COUNTED.store(0, Ordering::SeqCst);
    GOES_ON.store(fault != Fault::Once, Ordering::SeqCst);
    IS_FULL.store(fault == Fault::Full, Ordering::SeqCst);
    FAILS_AT.store(number, Ordering::SeqCst);
}

/// Lets all operations succeed again, and returns the number of operations since [`fail_operation`].
pub fn end_disk_fault() -> u64 {
    FAILS_AT.store(u64::MAX, Ordering::SeqCst);
    COUNTED.load(Ordering::SeqCst)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reads,
    Writes,
}

/// Counts an operation, and returns whether it fails.
fn should_operation_fail(kind: Kind) -> bool {
    // On a full disk, reads do not fail and are not counted.
    if IS_FULL.load(Ordering::SeqCst) && kind == Kind::Reads {
        return false;
    }
    let number = COUNTED.fetch_add(1, Ordering::SeqCst) + 1;
    let at = FAILS_AT.load(Ordering::SeqCst);
    number == at || number > at && GOES_ON.load(Ordering::SeqCst)
}

/// Returns the error of a failed lock: SQLITE_BUSY, as if another process held the lock, or the error
/// `system`.
fn lock_error(system: c_int) -> c_int {
    if GOES_ON.load(Ordering::SeqCst) { ffi::SQLITE_BUSY } else { system }
}

/// SQLite's own VFS, and the failing VFS, which calls SQLite's own VFS.
struct Layers {
    system: *mut sqlite3_vfs,
    ours: sqlite3_vfs,
}

// SAFETY: SQLite uses a registered VFS in all threads, and the pointers are valid until the process ends.
unsafe impl Send for Layers {}
// SAFETY: as for `Send`. Only SQLite changes a field: it holds a lock while it sets the pointer to the next VFS.
unsafe impl Sync for Layers {}

static LAYERS: OnceLock<Layers> = OnceLock::new();

/// Makes the failing VFS the default VFS of this process. Operations succeed until a test calls
/// [`fail_operation`].
pub fn install_failing_disk() {
    let layers = LAYERS.get_or_init(|| {
        // SAFETY: a null name requests the default VFS, which exists as long as the process.
        let system = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
        // SAFETY: SQLite returned the pointer; the fields are plain values and function pointers.
        let mut ours = unsafe { std::ptr::read(system) };
        let own = c_int::try_from(size_of::<File>()).expect("small");
        ours.szOsFile += own;
        ours.zName = c"failing".as_ptr();
        ours.pNext = std::ptr::null_mut();
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        ours.xAccess = Some(access);
        Layers { system, ours }
    });
    // SAFETY: the failing VFS is never moved or freed. SQLite writes only its pointer `pNext`, under a lock of SQLite.
    let status = unsafe { ffi::sqlite3_vfs_register((&raw const layers.ours).cast_mut(), 1) };
    assert_eq!(status, ffi::SQLITE_OK);
}

fn system_layer() -> *mut sqlite3_vfs {
    LAYERS.get().expect("installed").system
}

/// An open file of the failing VFS. SQLite requires that the pointer to the methods comes first. `real` points to the file of
/// SQLite's own VFS.
#[repr(C)]
struct File {
    base: sqlite3_file,
    real: *mut sqlite3_file,
}

/// Returns the method `$method` of SQLite's own VFS, and the pointer `real` of the file.
macro_rules! real {
    ($file:ident . $method:ident) => {{
        // SAFETY: SQLite calls this only for files that `open` has initialized, so `$file` points to a
        // `File`.
        let real = unsafe { (*$file.cast::<File>()).real };
        // SAFETY: SQLite calls this only after `open` has set METHODS. `open` sets METHODS only if the methods of `real` are set.
        (unsafe { (*(*real).pMethods).$method.expect("the system's file has this method") }, real)
    }};
}

/// Defines a method that calls the method `$method` of SQLite's own VFS, or returns `$error` if the operation must fail.
macro_rules! method {
    ($name:ident, $method:ident, $kind:expr, $error:expr $(, $argument:ident: $type:ty)*) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) -> c_int {
            if let Some(kind) = $kind && should_operation_fail(kind) {
                return $error;
            }
            let (method, real) = real!(file.$method);
            // SAFETY: `real` points to an open file of SQLite's own VFS. SQLite passed the other arguments to this function.
            unsafe { method(real $(, $argument)*) }
        }
    };
}

method!(close, xClose, None::<Kind>, 0);
method!(read, xRead, Some(Kind::Reads), ffi::SQLITE_IOERR_READ, to: *mut c_void, size: c_int, at: i64);
method!(truncate, xTruncate, Some(Kind::Writes), ffi::SQLITE_IOERR_TRUNCATE, size: i64);
method!(sync, xSync, Some(Kind::Writes), ffi::SQLITE_IOERR_FSYNC, flags: c_int);
method!(file_size, xFileSize, Some(Kind::Reads), ffi::SQLITE_IOERR_FSTAT, size: *mut i64);
method!(lock, xLock, Some(Kind::Reads), lock_error(ffi::SQLITE_IOERR_LOCK), level: c_int);
method!(unlock, xUnlock, None::<Kind>, 0, level: c_int);
method!(reserved, xCheckReservedLock, Some(Kind::Reads), ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, is_held: *mut c_int);
method!(control, xFileControl, None::<Kind>, 0, what: c_int, with: *mut c_void);
method!(sector_size, xSectorSize, None::<Kind>, 0);
method!(characteristics, xDeviceCharacteristics, None::<Kind>, 0);
method!(shm_map, xShmMap, Some(Kind::Writes), ffi::SQLITE_IOERR_SHMMAP, page: c_int, size: c_int, extends: c_int, to: *mut *mut c_void);
method!(shm_unmap, xShmUnmap, None::<Kind>, 0, deletes: c_int);

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, size: c_int, at: i64) -> c_int {
    let (write, real) = real!(file.xWrite);
    if !should_operation_fail(Kind::Writes) {
        // SAFETY: `real` points to an open file of SQLite's own VFS. SQLite passed the other arguments to this function.
        return unsafe { write(real, from, size, at) };
    }
    if GOES_ON.load(Ordering::SeqCst) {
        return ffi::SQLITE_FULL;
    }
    // SAFETY: the arguments come from SQLite. Only the first half of the buffer is written.
    unsafe { write(real, from, size / 2, at) };
    ffi::SQLITE_IOERR_WRITE
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // An unlock always succeeds. A failed lock gives an I/O error here: after SQLITE_BUSY, SQLite would try again for ten seconds.
    if flags & ffi::SQLITE_SHM_LOCK != 0 && should_operation_fail(Kind::Reads) {
        return ffi::SQLITE_IOERR_SHMLOCK;
    }
    let (method, real) = real!(file.xShmLock);
    // SAFETY: `real` points to an open file of SQLite's own VFS. SQLite passed the other arguments to this function.
    unsafe { method(real, offset, count, flags) }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    let (method, real) = real!(file.xShmBarrier);
    // SAFETY: `real` points to an open file of SQLite's own VFS.
    unsafe { method(real) }
}

/// The methods have version 2, in which SQLite does not map files into memory. The test could not count reads from mapped memory.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite allocates `szOsFile` bytes: a `File`, followed by the file of SQLite's own VFS.
    let real = unsafe { file.cast::<u8>().add(size_of::<File>()) }.cast::<sqlite3_file>();
    // SAFETY: SQLite has allocated the structure. If the pointer to the methods is null, the file is not
    // open.
    unsafe { file.cast::<File>().write(File { base: sqlite3_file { pMethods: std::ptr::null() }, real }) };
    let kind = if flags & ffi::SQLITE_OPEN_CREATE == 0 { Kind::Reads } else { Kind::Writes };
    if should_operation_fail(kind) {
        return ffi::SQLITE_CANTOPEN;
    }
    let open = find_system_method(|vfs| vfs.xOpen);
    // SAFETY: `real` points to enough memory for a file of SQLite's own VFS. SQLite passed the other arguments to this function.
    let status = unsafe { open(system_layer(), name, real, flags, out) };
    // SAFETY: `open` has initialized `real`. `pMethods` is null if the file need not be closed.
    if unsafe { !(*real).pMethods.is_null() } {
        // SAFETY: `file` was written above.
        unsafe { (*file).pMethods = &raw const METHODS };
    }
    status
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, syncs: c_int) -> c_int {
    // On a full disk, files can still be removed.
    if !IS_FULL.load(Ordering::SeqCst) && should_operation_fail(Kind::Writes) {
        return ffi::SQLITE_IOERR_DELETE;
    }
    let delete = find_system_method(|vfs| vfs.xDelete);
    // SAFETY: SQLite passed the arguments after the VFS to this function.
    unsafe { delete(system_layer(), name, syncs) }
}

unsafe extern "C" fn access(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    if should_operation_fail(Kind::Reads) {
        return ffi::SQLITE_IOERR_ACCESS;
    }
    let access = find_system_method(|vfs| vfs.xAccess);
    // SAFETY: SQLite passed the arguments after the VFS to this function.
    unsafe { access(system_layer(), name, flags, out) }
}

/// Returns a function of SQLite's own VFS.
fn find_system_method<F>(of: impl FnOnce(&sqlite3_vfs) -> Option<F>) -> F {
    // SAFETY: SQLite's own VFS exists as long as the process.
    of(unsafe { &*system_layer() }).expect("each layer has it")
}
