/* SPDX-License-Identifier: LGPL-3.0-only */
/* Types shared by the C side of the embedded job manager (abi.c: handle and arguments, abi_jobtap.c: all other calls). */
#ifndef EMBEDDED_ABI_H
#define EMBEDDED_ABI_H

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARG_OUT 1
#define ARG_REPLACE 2
#define ROLE_OWNER 1u
#define PRIORITY_UNAVAIL (-2)
#define NODEID_ANY 0xffffffffu /* FLUX_NODEID_ANY */
#define NO_RESPONSE 1 /* FLUX_RPC_NORESPONSE */
#define ERROR_TEXT 160 /* size of flux_error_t.text: longer texts are truncated */
#define LOG_ERR 3

struct plugin {
    void *slot; /* the Rust side's handle */
    char *conf; /* JSON text given at load, or NULL */
    char error[256];
};

struct args {
    json_t *in;
    json_t *out;
    json_error_t error;
};

struct cred {
    uint32_t userid;
    uint32_t rolemask;
};

struct msg {
    void *host;
    char *topic;
    char *payload; /* text, or NULL for a request without payload */
    json_t *json;  /* decoded on first unpack; strings handed out are borrowed from here */
    struct cred cred;
    int refs; /* references of the plugin */
    int is_over; /* the host has released its reference */
    char error[256];
};

typedef void (*free_f) (void *);
typedef int (*plugin_f) (struct plugin *, const char *, struct args *, void *);
typedef void (*msg_handler_f) (void *h, void *mh, const struct msg *, void *arg);
typedef void (*watcher_f) (void *r, void *w, int revents, void *arg);
typedef void (*continuation_f) (void *f, void *arg);

struct handler {
    const char *topic;
    plugin_f cb;
    void *data;
};

/* The functions of the Rust side, in the order of HostOps in ops.rs. */
struct host_ops {
    int (*set_name) (void *slot, const char *name);
    int (*add_handler) (void *slot, const char *topic, plugin_f cb, void *data);
    int (*aux_set) (void *slot, const char *key, void *val, free_f destroy);
    void *(*aux_get) (void *slot, const char *key);
    void *(*host_of) (void *slot);
    int (*service) (void *slot, const char *method, uint32_t rolemask, msg_handler_f cb, void *arg);
    int (*load_order) (void *slot, const char *mode);
    int (*reprioritize_all) (void *slot);
    int (*reprioritize_job) (void *slot, uint64_t id, uint32_t priority);
    int (*dependency) (void *slot, uint64_t id, int add, const char *name);
    int (*raise) (void *slot, uint64_t id, const char *type, int severity, const char *note);
    int (*event_post) (void *slot, uint64_t id, const char *name, const char *context);
    int (*jobspec_update) (void *slot, const char *updates);
    int (*jobspec_update_id) (void *slot, uint64_t id, const char *updates);
    int (*job_lookup) (void *slot, uint64_t id, struct args **args);
    int (*subscribe) (void *slot, uint64_t id, int on);
    int (*respond) (void *host, const struct msg *msg, int errnum, const char *text);
    void (*log) (void *host, int level, const char *text);
    void *(*watcher_create) (void *host, double after, watcher_f cb, void *arg);
    void (*watcher_arm) (void *watcher, int is_started);
    void (*watcher_reset) (void *watcher, double after);
    /* Destroys a watcher or a future. */
    void (*destroy) (void *object);
    double (*now) (void *host);
    void *(*rpc) (void *host, const char *topic, const char *payload);
    /* Commits to the KVS: stores each text at its key, and unlinks each key whose text is NULL. */
    void *(*commit) (void *host, int count, const char **keys, const char **texts);
    void *(*lookup) (void *host, const char *key);
    int (*future_then) (void *future, continuation_f cb, void *arg);
    int (*lookup_get) (void *future, const char **text);
    /* Returns -errno if a test makes `call` fail, otherwise 0. For calls that have neither a plugin nor a host as argument. */
    int (*inject_fault) (const char *call);
    int (*handle_aux_set) (void *host, const char *key, void *val, free_f destroy);
    void *(*handle_aux_get) (void *host, const char *key);
};

extern struct host_ops ops;

int fail (int errnum);
int result (int rc);
int flux_plugin_arg_pack (struct args *args, int flags, const char *fmt, ...);

#endif
