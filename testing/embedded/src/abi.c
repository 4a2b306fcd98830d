/* SPDX-License-Identifier: LGPL-3.0-only */
/* The functions of Flux that a jobtap plugin calls, implemented for the embedded job manager.
 *
 * Stable Rust can call variadic functions but can't define them, so every flux_* symbol is defined in C. The C side
 * packs and unpacks JSON with jansson, and forwards everything else, with fixed arguments, to the table of functions
 * that the Rust side registers. These functions return >= 0 on success and -errno on failure.
 *
 * This object is linked into executables only. The plugin's .so keeps its flux_* symbols undefined.
 */
#include "abi.h"

struct host_ops ops;

int fail (int errnum)
{
    errno = errnum;
    return -1;
}

/* Converts the result of a forwarded call: for -errno, sets errno and returns -1. */
int result (int rc)
{
    return rc < 0 ? fail (-rc) : rc;
}

static int plugin_fail (struct plugin *p, int errnum, const char *text)
{
    if (p)
        snprintf (p->error, sizeof (p->error), "%s", text ? text : strerror (errnum));
    return fail (errnum);
}

/* The functions that the Rust side calls: struct Abi in abi.rs. */
static struct plugin *plugin_new (void *slot, const char *conf)
{
    struct plugin *p = calloc (1, sizeof (*p));
    if (p) {
        p->slot = slot;
        p->conf = conf ? strdup (conf) : NULL;
    }
    return p;
}

static void plugin_free (struct plugin *p)
{
    if (p)
        free (p->conf);
    free (p);
}

void flux_plugin_arg_destroy (struct args *args)
{
    if (args) {
        json_decref (args->in);
        json_decref (args->out);
        free (args);
    }
}

static struct args *args_new (const char *in, const char *out)
{
    struct args *args = calloc (1, sizeof (*args));
    if (!args)
        return NULL;
    if ((in && !(args->in = json_loads (in, 0, NULL))) || (out && !(args->out = json_loads (out, 0, NULL)))) {
        flux_plugin_arg_destroy (args);
        return NULL;
    }
    return args;
}

static struct msg *msg_new (void *host, const char *topic, const char *payload, uint32_t userid, uint32_t roles)
{
    struct msg *msg = calloc (1, sizeof (*msg));
    if (msg) {
        msg->host = host;
        msg->topic = strdup (topic);
        msg->payload = payload ? strdup (payload) : NULL;
        msg->cred.userid = userid;
        msg->cred.rolemask = roles;
    }
    return msg;
}

static int msg_refs (const struct msg *msg)
{
    return msg->refs;
}

static void msg_free (struct msg *msg)
{
    if (msg && msg->refs > 0) {
        msg->is_over = 1;
        return;
    }
    if (msg) {
        free (msg->topic);
        free (msg->payload);
        json_decref (msg->json);
    }
    free (msg);
}

const struct msg *flux_msg_incref (const struct msg *msg)
{
    if (msg)
        ((struct msg *)msg)->refs++;
    return msg;
}

void flux_msg_decref (const struct msg *const_msg)
{
    struct msg *msg = (struct msg *)const_msg;

    if (msg && --msg->refs == 0 && msg->is_over)
        msg_free (msg);
}

int flux_plugin_arg_get (struct args *args, int flags, char **text);
int flux_plugin_arg_set (struct args *args, int flags, const char *text);

struct abi {
    struct plugin *(*plugin_new) (void *slot, const char *conf);
    void (*plugin_free) (struct plugin *p);
    struct args *(*args_new) (const char *in, const char *out);
    void (*args_free) (struct args *args);
    int (*args_get) (struct args *args, int flags, char **text);
    int (*args_set) (struct args *args, int flags, const char *text);
    struct msg *(*msg_new) (void *host, const char *topic, const char *payload, uint32_t userid, uint32_t roles);
    void (*msg_free) (struct msg *msg);
    int (*msg_refs) (const struct msg *msg);
    void (*free_text) (void *text);
};

const struct abi *embedded_set_host (const struct host_ops *table)
{
    static const struct abi abi = {
        plugin_new, plugin_free, args_new, flux_plugin_arg_destroy, flux_plugin_arg_get, flux_plugin_arg_set,
        msg_new, msg_free, msg_refs, free,
    };
    ops = *table;
    return &abi;
}

/* --- plugin handle ------------------------------------------------------------------------------------------ */

int flux_plugin_set_name (struct plugin *p, const char *name)
{
    return p && name ? result (ops.set_name (p->slot, name)) : plugin_fail (p, EINVAL, NULL);
}

int flux_plugin_add_handler (struct plugin *p, const char *topic, plugin_f cb, void *data)
{
    if (!p || !topic || !cb)
        return plugin_fail (p, EINVAL, NULL);
    return result (ops.add_handler (p->slot, topic, cb, data));
}

int flux_plugin_register (struct plugin *p, const char *name, const struct handler *table)
{
    if (!p || !table)
        return plugin_fail (p, EINVAL, NULL);
    if (name && flux_plugin_set_name (p, name) < 0)
        return -1;
    for (; table->topic; table++) {
        if (flux_plugin_add_handler (p, table->topic, table->cb, table->data) < 0)
            return -1;
    }
    return 0;
}

const char *flux_plugin_strerror (struct plugin *p)
{
    return p ? p->error : strerror (errno);
}

const char *flux_plugin_get_conf (struct plugin *p)
{
    if (!p || !p->conf) {
        plugin_fail (p, p ? ENOENT : EINVAL, "No plugin conf set");
        return NULL;
    }
    return p->conf;
}

/* Strings that are unpacked from the configuration must stay valid as long as the plugin, so its aux owns the tree. */
static void conf_release (void *json)
{
    json_decref (json);
}

int flux_plugin_conf_unpack (struct plugin *p, const char *fmt, ...)
{
    static const char *key = "embedded::conf";
    json_error_t error;
    json_t *conf;
    va_list ap;
    int rc;

    if (!p || !fmt)
        return plugin_fail (p, EINVAL, NULL);
    if (!p->conf)
        return plugin_fail (p, ENOENT, "No plugin conf set");
    if (!(conf = ops.aux_get (p->slot, key))) {
        if (!(conf = json_loads (p->conf, 0, &error)))
            return plugin_fail (p, EINVAL, error.text);
        ops.aux_set (p->slot, key, conf, conf_release);
    }
    va_start (ap, fmt);
    rc = json_vunpack_ex (conf, &error, 0, fmt, ap);
    va_end (ap);
    if (rc < 0) {
        char text[ERROR_TEXT + 32];
        snprintf (text, sizeof (text), "unpack error: %s", error.text);
        return plugin_fail (p, EINVAL, text);
    }
    return rc;
}

int flux_plugin_aux_set (struct plugin *p, const char *key, void *val, free_f destroy)
{
    return p ? result (ops.aux_set (p->slot, key, val, destroy)) : fail (EINVAL);
}

void *flux_plugin_aux_get (struct plugin *p, const char *key)
{
    void *val = p && key ? ops.aux_get (p->slot, key) : NULL;
    if (!val)
        errno = p && key ? ENOENT : EINVAL;
    return val;
}

/* --- callback arguments ------------------------------------------------------------------------------------- */

static int args_fail (struct args *args, int errnum, const char *text)
{
    if (args)
        snprintf (args->error.text, sizeof (args->error.text), "%s", text ? text : strerror (errnum));
    return fail (errnum);
}

static int args_merge (struct args *args, int flags, json_t *value)
{
    json_t **side = (flags & ARG_OUT) ? &args->out : &args->in;
    int rc = 0;

    if (!(flags & ARG_REPLACE) && *side) {
        rc = value ? json_object_update (*side, value) : -1;
        json_decref (value);
        return rc;
    }
    json_decref (*side);
    *side = value;
    return 0;
}

const char *flux_plugin_arg_strerror (struct args *args)
{
    return args ? args->error.text : strerror (errno);
}

int flux_plugin_arg_set (struct args *args, int flags, const char *text)
{
    json_t *value = NULL;

    if (!args)
        return fail (EINVAL);
    args->error.text[0] = '\0';
    if (text && !(value = json_loads (text, 0, &args->error)))
        return fail (EINVAL);
    return args_merge (args, flags, value);
}

int flux_plugin_arg_get (struct args *args, int flags, char **text)
{
    json_t *side;

    if (!args || !text)
        return args_fail (args, EINVAL, NULL);
    if (!(side = (flags & ARG_OUT) ? args->out : args->in))
        return args_fail (args, ENOENT, "No args currently set");
    return (*text = json_dumps (side, JSON_COMPACT | JSON_ENCODE_ANY)) ? 0 : args_fail (args, ENOMEM, NULL);
}

int flux_plugin_arg_pack (struct args *args, int flags, const char *fmt, ...)
{
    json_t *value;
    va_list ap;

    if (!args || !fmt)
        return args_fail (args, EINVAL, NULL);
    args->error.text[0] = '\0';
    va_start (ap, fmt);
    value = json_vpack_ex (&args->error, 0, fmt, ap);
    va_end (ap);
    return value ? args_merge (args, flags, value) : fail (EINVAL);
}

int flux_plugin_arg_unpack (struct args *args, int flags, const char *fmt, ...)
{
    va_list ap;
    int rc;

    if (!args || !fmt)
        return args_fail (args, EINVAL, NULL);
    args->error.text[0] = '\0';
    va_start (ap, fmt);
    rc = json_vunpack_ex ((flags & ARG_OUT) ? args->out : args->in, &args->error, 0, fmt, ap);
    va_end (ap);
    return rc < 0 ? fail (EINVAL) : rc;
}

/* --- log ---------------------------------------------------------------------------------------------------- */

int flux_log (void *h, int level, const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    ops.log (h, level, text);
    return 0;
}

void flux_log_error (void *h, const char *fmt, ...)
{
    int saved_errno = errno;
    char text[3072];
    char line[4096];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    snprintf (line, sizeof (line), "%s: %s", text, strerror (saved_errno));
    ops.log (h, LOG_ERR, line);
    errno = saved_errno;
}
