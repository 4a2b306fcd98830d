/* SPDX-License-Identifier: LGPL-3.0-only */
/* The jobtap, message, log, timer and KVS calls of the embedded job manager's C side (see abi.c). */
#include "abi.h"

/* Formats a text, truncated to ERROR_TEXT like flux_error_t and the note of an exception. */
#define FORMAT(buf, fmt)                              \
    do {                                              \
        va_list ap_;                                  \
        va_start (ap_, fmt);                          \
        vsnprintf ((buf), sizeof (buf), (fmt), ap_);  \
        va_end (ap_);                                 \
    } while (0)

/* Returns the packed arguments as JSON text, which the caller frees, or NULL if the format is invalid. */
#define PACK(text, fmt)                                            \
    do {                                                           \
        va_list ap_;                                               \
        json_error_t error_;                                       \
        json_t *json_;                                             \
        va_start (ap_, fmt);                                       \
        json_ = json_vpack_ex (&error_, 0, (fmt), ap_);            \
        va_end (ap_);                                              \
        (text) = json_ ? json_dumps (json_, JSON_COMPACT) : NULL;  \
        json_decref (json_);                                       \
    } while (0)

/* --- jobtap ------------------------------------------------------------------------------------------------- */

void *flux_jobtap_get_flux (struct plugin *p)
{
    if (!p)
        errno = EINVAL;
    return p ? ops.host_of (p->slot) : NULL;
}

int flux_jobtap_service_register_ex (struct plugin *p,
                                     const char *method,
                                     uint32_t rolemask,
                                     msg_handler_f cb,
                                     void *arg)
{
    return p && cb ? result (ops.service (p->slot, method, rolemask, cb, arg)) : fail (EINVAL);
}

int flux_jobtap_service_register (struct plugin *p, const char *method, msg_handler_f cb, void *arg)
{
    return flux_jobtap_service_register_ex (p, method, 0, cb, arg);
}

int flux_jobtap_set_load_sort_order (struct plugin *p, const char *mode)
{
    return p && mode ? result (ops.load_order (p->slot, mode)) : fail (EINVAL);
}

int flux_jobtap_reprioritize_all (struct plugin *p)
{
    return p ? result (ops.reprioritize_all (p->slot)) : fail (EINVAL);
}

int flux_jobtap_reprioritize_job (struct plugin *p, uint64_t id, unsigned int priority)
{
    return p ? result (ops.reprioritize_job (p->slot, id, priority)) : fail (EINVAL);
}

int flux_jobtap_priority_unavail (struct plugin *p, struct args *args)
{
    if (!p)
        return fail (EINVAL);
    return flux_plugin_arg_pack (args, ARG_OUT, "{s:I}", "priority", (json_int_t) PRIORITY_UNAVAIL);
}

int flux_jobtap_error (struct plugin *p, struct args *args, const char *fmt, ...)
{
    char text[ERROR_TEXT];

    (void) p;
    FORMAT (text, fmt);
    if (text[0] != '\0')
        flux_plugin_arg_pack (args, ARG_OUT, "{s:s}", "errmsg", text);
    return -1;
}

int flux_jobtap_reject_job (struct plugin *p, struct args *args, const char *fmt, ...)
{
    char text[ERROR_TEXT];

    if (!fmt)
        return flux_jobtap_error (p, args, "rejected by job-manager plugin");
    FORMAT (text, fmt);
    return flux_jobtap_error (p, args, "%s", text);
}

int flux_jobtap_dependency_add (struct plugin *p, uint64_t id, const char *name)
{
    return p && name ? result (ops.dependency (p->slot, id, 1, name)) : fail (EINVAL);
}

int flux_jobtap_dependency_remove (struct plugin *p, uint64_t id, const char *name)
{
    return p && name ? result (ops.dependency (p->slot, id, 0, name)) : fail (EINVAL);
}

int flux_jobtap_raise_exception (struct plugin *p, uint64_t id, const char *type, int severity, const char *fmt, ...)
{
    char note[1024];

    if (!p || !type || !fmt)
        return fail (EINVAL);
    FORMAT (note, fmt);
    return result (ops.raise (p->slot, id, type, severity, note));
}

int flux_jobtap_event_post_pack (struct plugin *p, uint64_t id, const char *name, const char *fmt, ...)
{
    char *context = NULL;
    int rc;

    if (!p || !name)
        return fail (EINVAL);
    if (fmt) {
        PACK (context, fmt);
        if (!context)
            return fail (EINVAL);
    }
    rc = result (ops.event_post (p->slot, id, name, context));
    free (context);
    return rc;
}

int flux_jobtap_jobspec_update_pack (struct plugin *p, const char *fmt, ...)
{
    char *updates;
    int rc;

    if (!p || !fmt)
        return fail (EINVAL);
    PACK (updates, fmt);
    rc = updates ? result (ops.jobspec_update (p->slot, updates)) : fail (EINVAL);
    free (updates);
    return rc;
}

int flux_jobtap_jobspec_update_id_pack (struct plugin *p, uint64_t id, const char *fmt, ...)
{
    char *updates;
    int rc;

    if (!p || !fmt)
        return fail (EINVAL);
    PACK (updates, fmt);
    rc = updates ? result (ops.jobspec_update_id (p->slot, id, updates)) : fail (EINVAL);
    free (updates);
    return rc;
}

struct args *flux_jobtap_job_lookup (struct plugin *p, uint64_t id)
{
    struct args *args = NULL;

    if (!p)
        fail (EINVAL);
    else
        result (ops.job_lookup (p->slot, id, &args));
    return args;
}

int flux_jobtap_job_subscribe (struct plugin *p, uint64_t id)
{
    return p ? result (ops.subscribe (p->slot, id, 1)) : fail (EINVAL);
}

void flux_jobtap_job_unsubscribe (struct plugin *p, uint64_t id)
{
    if (p)
        ops.subscribe (p->slot, id, 0);
}

/* --- messages ----------------------------------------------------------------------------------------------- */

static int msg_fail (struct msg *msg, const char *text)
{
    snprintf (msg->error, sizeof (msg->error), "%s", text);
    return fail (EPROTO);
}

int flux_request_decode (struct msg *msg, const char **topic, const char **payload)
{
    if (!msg)
        return fail (EINVAL);
    if (result (ops.inject_fault ("flux_request_decode")) < 0)
        return -1;
    if (topic)
        *topic = msg->topic;
    if (payload)
        *payload = msg->payload;
    return 0;
}

int flux_request_unpack (struct msg *msg, const char **topic, const char *fmt, ...)
{
    json_error_t error;
    va_list ap;
    int rc;

    if (!msg || !fmt)
        return fail (EINVAL);
    msg->error[0] = '\0';
    if (topic)
        *topic = msg->topic;
    if (!msg->payload)
        return msg_fail (msg, "message does not have a payload");
    if (!msg->json && !(msg->json = json_loads (msg->payload, 0, &error)))
        return msg_fail (msg, error.text);
    if (!json_is_object (msg->json))
        return msg_fail (msg, "payload is not a JSON object");
    va_start (ap, fmt);
    rc = json_vunpack_ex (msg->json, &error, 0, fmt, ap);
    va_end (ap);
    return rc < 0 ? msg_fail (msg, error.text) : 0;
}

const char *flux_msg_last_error (const struct msg *msg)
{
    return msg ? msg->error : "";
}

int flux_msg_get_cred (const struct msg *msg, struct cred *cred)
{
    if (!msg || !cred)
        return fail (EINVAL);
    *cred = msg->cred;
    return 0;
}

int flux_msg_get_userid (const struct msg *msg, uint32_t *userid)
{
    if (!msg || !userid)
        return fail (EINVAL);
    *userid = msg->cred.userid;
    return 0;
}

int flux_msg_get_rolemask (const struct msg *msg, uint32_t *rolemask)
{
    if (!msg || !rolemask)
        return fail (EINVAL);
    *rolemask = msg->cred.rolemask;
    return 0;
}

int flux_msg_cred_authorize (struct cred cred, uint32_t userid)
{
    return (cred.rolemask & ROLE_OWNER) || cred.userid == userid ? 0 : fail (EPERM);
}

int flux_respond (void *h, const struct msg *msg, const char *text)
{
    return h && msg ? result (ops.respond (h, msg, 0, text)) : fail (EINVAL);
}

int flux_respond_pack (void *h, const struct msg *msg, const char *fmt, ...)
{
    char *text;
    int rc;

    if (!h || !msg || !fmt)
        return fail (EINVAL);
    PACK (text, fmt);
    rc = text ? result (ops.respond (h, msg, 0, text)) : fail (EINVAL);
    free (text);
    return rc;
}

int flux_respond_error (void *h, const struct msg *msg, int errnum, const char *text)
{
    return h && msg ? result (ops.respond (h, msg, errnum ? errnum : EINVAL, text)) : fail (EINVAL);
}

int flux_aux_set (void *h, const char *name, void *val, free_f destroy)
{
    return h && (name || val) ? result (ops.handle_aux_set (h, name, val, destroy)) : fail (EINVAL);
}

void *flux_aux_get (void *h, const char *name)
{
    void *val = h && name ? ops.handle_aux_get (h, name) : NULL;

    if (!val)
        errno = h && name ? ENOENT : EINVAL;
    return val;
}

/* --- reactor: the host handle doubles as its reactor -------------------------------------------------------- */

void *flux_get_reactor (void *h)
{
    return h;
}

double flux_reactor_now (void *r)
{
    return ops.now (r);
}

void *flux_timer_watcher_create (void *r, double after, double repeat, watcher_f cb, void *arg)
{
    /* The host has no timers that repeat. */
    if (!r || !cb || after < 0 || repeat != 0) {
        errno = EINVAL;
        return NULL;
    }
    return ops.watcher_create (r, after, cb, arg);
}

void flux_timer_watcher_reset (void *w, double after, double repeat)
{
    (void) repeat;
    if (w)
        ops.watcher_reset (w, after);
}

void flux_watcher_start (void *w)
{
    if (w)
        ops.watcher_arm (w, 1);
}

void flux_watcher_stop (void *w)
{
    if (w)
        ops.watcher_arm (w, 0);
}

void flux_watcher_destroy (void *w)
{
    if (w)
        ops.destroy (w);
}

/* --- RPC and KVS ------------------------------------------------------------------------------------------------ */

int flux_job_kvs_key (char *buf, int len, uint64_t id, const char *key)
{
    int n = result (ops.inject_fault ("flux_job_kvs_key"));

    if (n < 0)
        return n;
    n = snprintf (buf,
                      len,
                      "job.%04x.%04x.%04x.%04x%s%s",
                      (unsigned) (id >> 48),
                      (unsigned) (id >> 32 & 0xffff),
                      (unsigned) (id >> 16 & 0xffff),
                      (unsigned) (id & 0xffff),
                      key ? "." : "",
                      key ? key : "");
    return n >= 0 && n < len ? n : fail (EOVERFLOW);
}

void *flux_rpc (void *h, const char *topic, const char *payload, uint32_t nodeid, int flags)
{
    void *f = NULL;

    if (h && topic && nodeid == NODEID_ANY && (flags == 0 || flags == NO_RESPONSE))
        f = ops.rpc (h, topic, payload);
    if (!f)
        errno = EINVAL;
    return f;
}

int flux_rpc_get (void *f, const char **text)
{
    return f ? result (ops.lookup_get (f, text)) : fail (EINVAL);
}

/* A transaction: pairs of key and text. A NULL text unlinks the key. */
struct txn {
    int count;
    char **keys;
    char **texts;
};

void *flux_kvs_txn_create (void)
{
    struct txn *txn;

    if (result (ops.inject_fault ("flux_kvs_txn_create")) < 0)
        return NULL;
    if (!(txn = calloc (1, sizeof (*txn))))
        errno = ENOMEM;
    return txn;
}

void flux_kvs_txn_destroy (void *arg)
{
    int saved_errno = errno;
    struct txn *txn = arg;

    if (txn) {
        for (int i = 0; i < txn->count; i++) {
            free (txn->keys[i]);
            free (txn->texts[i]);
        }
        free (txn->keys);
        free (txn->texts);
        free (txn);
    }
    errno = saved_errno;
}

static int txn_add (struct txn *txn, int flags, const char *key, const char *text)
{
    char **keys, **texts;

    if (!txn || flags != 0 || !key || key[0] == '\0')
        return fail (EINVAL);
    if (!(keys = realloc (txn->keys, (txn->count + 1) * sizeof (*keys))))
        return fail (ENOMEM);
    txn->keys = keys;
    if (!(texts = realloc (txn->texts, (txn->count + 1) * sizeof (*texts))))
        return fail (ENOMEM);
    txn->texts = texts;
    keys[txn->count] = strdup (key);
    texts[txn->count] = text ? strdup (text) : NULL;
    txn->count++;
    return keys[txn->count - 1] && (!text || texts[txn->count - 1]) ? 0 : fail (ENOMEM);
}

int flux_kvs_txn_put (void *txn, int flags, const char *key, const char *text)
{
    if (result (ops.inject_fault ("flux_kvs_txn_put")) < 0)
        return -1;
    return txn_add (txn, flags, key, text ? text : "");
}

int flux_kvs_txn_unlink (void *txn, int flags, const char *key)
{
    if (result (ops.inject_fault ("flux_kvs_txn_unlink")) < 0)
        return -1;
    return txn_add (txn, flags, key, NULL);
}

void *flux_kvs_commit (void *h, const char *ns, int flags, void *arg)
{
    struct txn *txn = arg;

    if (!h || ns || flags != 0 || !txn) {
        errno = EINVAL;
        return NULL;
    }
    return ops.commit (h, txn->count, (const char **) txn->keys, (const char **) txn->texts);
}

void *flux_kvs_lookup (void *h, const char *ns, int flags, const char *key)
{
    /* Ignores FLUX_KVS_WAITCREATE: every key that the plugin waits for exists from the start. */
    if (!h || ns || (flags & ~8) != 0 || !key) {
        errno = EINVAL;
        return NULL;
    }
    return ops.lookup (h, key);
}

/* Ignores the timeout: in virtual time, the response always comes first. */
int flux_future_then (void *f, double timeout, continuation_f cb, void *arg)
{
    (void) timeout;
    return f && cb ? result (ops.future_then (f, cb, arg)) : fail (EINVAL);
}

int flux_kvs_lookup_get (void *f, const char **text)
{
    return f ? result (ops.lookup_get (f, text)) : fail (EINVAL);
}

void flux_future_destroy (void *f)
{
    int saved_errno = errno;

    if (f)
        ops.destroy (f);
    errno = saved_errno;
}
