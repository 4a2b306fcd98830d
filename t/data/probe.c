/* SPDX-License-Identifier: LGPL-3.0-only */
/* A jobtap plugin for tests of the embedded job manager. It logs every callback as "TOPIC ID STATE DEPTH" and then
 * runs the steps that its configuration lists for that topic: {"script": {TOPIC: [[STEP, ARG..], ..]}, "sort": MODE}.
 * A step [STEP, ARG, JOB, AT] is about the job JOB, and runs in callbacks of the job AT only.
 * The service "do" runs one step from outside a callback. The result of a step is logged as "STEP=RC/ERRNO".
 */
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CURRENT UINT64_MAX
typedef struct flux_plugin P;
typedef struct flux_args A;
typedef struct flux_handle H;
typedef struct flux_msg M;
typedef struct flux_watcher W;
typedef struct flux_future F;
struct handler {
    const char *topic;
    int (*cb) (P *, const char *, A *, void *);
    void *data;
};

int flux_plugin_register (P *, const char *, const struct handler *);
int flux_plugin_conf_unpack (P *, const char *, ...);
int flux_plugin_arg_unpack (A *, int, const char *, ...);
int flux_plugin_arg_pack (A *, int, const char *, ...);
int flux_plugin_aux_set (P *, const char *, void *, void (*) (void *));
void *flux_plugin_aux_get (P *, const char *);
void flux_plugin_arg_destroy (A *);
H *flux_jobtap_get_flux (P *);
int flux_jobtap_dependency_add (P *, uint64_t, const char *);
int flux_jobtap_dependency_remove (P *, uint64_t, const char *);
int flux_jobtap_event_post_pack (P *, uint64_t, const char *, const char *, ...);
int flux_jobtap_jobspec_update_pack (P *, const char *, ...);
int flux_jobtap_jobspec_update_id_pack (P *, uint64_t, const char *, ...);
int flux_jobtap_raise_exception (P *, uint64_t, const char *, int, const char *, ...);
int flux_jobtap_reject_job (P *, A *, const char *, ...);
int flux_jobtap_priority_unavail (P *, A *);
int flux_jobtap_reprioritize_all (P *);
int flux_jobtap_reprioritize_job (P *, uint64_t, unsigned int);
int flux_jobtap_job_subscribe (P *, uint64_t);
void flux_jobtap_job_unsubscribe (P *, uint64_t);
A *flux_jobtap_job_lookup (P *, uint64_t);
int flux_jobtap_set_load_sort_order (P *, const char *);
int flux_jobtap_service_register (P *, const char *, void (*) (H *, void *, const M *, void *), void *);
int flux_jobtap_service_register_ex (P *, const char *, uint32_t, void (*) (H *, void *, const M *, void *), void *);
int flux_request_unpack (const M *, const char **, const char *, ...);
int flux_respond_pack (H *, const M *, const char *, ...);
int flux_respond_error (H *, const M *, int, const char *);
int flux_msg_get_userid (const M *, uint32_t *);
int flux_log (H *, int, const char *, ...);
void *flux_get_reactor (H *);
W *flux_timer_watcher_create (void *, double, double, void (*) (void *, W *, int, void *), void *);
void flux_watcher_start (W *);
void flux_watcher_destroy (W *);
int flux_job_kvs_key (char *, int, uint64_t, const char *);
F *flux_kvs_lookup (H *, const char *, int, const char *);
int flux_future_then (F *, double, void (*) (F *, void *), void *);
int flux_kvs_lookup_get (F *, const char **);
void flux_future_destroy (F *);

#define SAY(p, ...) flux_log (flux_jobtap_get_flux (p), 6, __VA_ARGS__)

static void run (P *p, const char *topic, A *args, int *rc);

static int depth (P *p, int by)
{
    intptr_t n = (intptr_t) flux_plugin_aux_get (p, "depth") + by;
    flux_plugin_aux_set (p, "depth", (void *) n, NULL);
    return (int) n;
}

static void timer_cb (void *r, W *w, int revents, void *arg)
{
    P *p = arg;
    int rc = 0;

    (void) r;
    (void) w;
    (void) revents;
    SAY (p, "timer");
    run (p, "timer", NULL, &rc);
}

static void lookup_cb (F *f, void *arg)
{
    const char *text;
    P *p = arg;

    if (flux_kvs_lookup_get (f, &text) < 0)
        SAY (p, "lookup failed %d", errno);
    else
        SAY (p, "lookup %s", text);
    flux_future_destroy (f);
}

static uint64_t job_of (json_t *step, size_t at)
{
    json_t *id = json_array_get (step, at);
    return json_is_integer (id) ? (uint64_t) json_integer_value (id) : CURRENT;
}

/* One step; *cb_rc is what the callback shall return. */
static void step_run (P *p, json_t *step, A *args, int *cb_rc)
{
    const char *name = json_string_value (json_array_get (step, 0));
    const char *text = json_string_value (json_array_get (step, 1));
    json_int_t number = json_integer_value (json_array_get (step, 1));
    uint64_t id = job_of (step, 2);
    uint64_t self = CURRENT;
    int rc = 0;
    json_t *only = json_array_get (step, 3);
    uint64_t at = 0;

    if (only && (!args || flux_plugin_arg_unpack (args, 0, "{s:I}", "id", &at) < 0
                 || at != (uint64_t) json_integer_value (only)))
        return;
    if (args && id == CURRENT && flux_plugin_arg_unpack (args, 0, "{s:I}", "id", &self) == 0)
        id = self;
    errno = 0;
    if (!strcmp (name, "hold"))
        rc = flux_jobtap_dependency_add (p, id, text);
    else if (!strcmp (name, "release"))
        rc = flux_jobtap_dependency_remove (p, id, text);
    else if (!strcmp (name, "memo"))
        rc = flux_jobtap_event_post_pack (p, id, "memo", "{s:s}", "note", text);
    else if (!strcmp (name, "alloc"))
        rc = flux_jobtap_event_post_pack (p, id, "alloc", "{s:b}", "bypass", 1);
    else if (!strcmp (name, "update"))
        rc = flux_jobtap_jobspec_update_pack (p, "{s:s}", text, "set");
    else if (!strcmp (name, "update_id"))
        rc = flux_jobtap_jobspec_update_id_pack (p, id, "{s:s}", text, "set");
    else if (!strcmp (name, "raise"))
        rc = flux_jobtap_raise_exception (p, id, "probe", 0, "%s", text);
    else if (!strcmp (name, "reject"))
        *cb_rc = rc = flux_jobtap_reject_job (p, args, "%s", text);
    else if (!strcmp (name, "priority"))
        rc = flux_plugin_arg_pack (args, 1, "{s:I}", "priority", number);
    else if (!strcmp (name, "bad_priority"))
        rc = flux_plugin_arg_pack (args, 1, "{s:s}", "priority", "high");
    else if (!strcmp (name, "unavail"))
        rc = flux_jobtap_priority_unavail (p, args);
    else if (!strcmp (name, "reprioritize"))
        rc = flux_jobtap_reprioritize_job (p, id, (unsigned int) number);
    else if (!strcmp (name, "reprioritize_all"))
        rc = flux_jobtap_reprioritize_all (p);
    else if (!strcmp (name, "subscribe"))
        rc = flux_jobtap_job_subscribe (p, id);
    else if (!strcmp (name, "unsubscribe"))
        flux_jobtap_job_unsubscribe (p, id);
    else if (!strcmp (name, "find")) {
        A *found = flux_jobtap_job_lookup (p, id);
        rc = found ? flux_plugin_arg_unpack (found, 0, "{s:I}", "id", &self) : -1;
        flux_plugin_arg_destroy (found);
    } else if (!strcmp (name, "timer") || !strcmp (name, "leak_timer")) {
        W *w = flux_timer_watcher_create (flux_get_reactor (flux_jobtap_get_flux (p)), (double) number, 0, timer_cb, p);
        flux_watcher_start (w);
        if (name[0] == 't')
            rc = flux_plugin_aux_set (p, NULL, w, (void (*) (void *)) flux_watcher_destroy);
    } else if (!strcmp (name, "lookup")) {
        char key[64];
        flux_job_kvs_key (key, sizeof (key), id, "eventlog");
        rc = flux_future_then (flux_kvs_lookup (flux_jobtap_get_flux (p), NULL, 0, key), -1., lookup_cb, p);
    } else if (!strcmp (name, "fail"))
        *cb_rc = -1;
    else
        rc = -1, errno = ENOSYS;
    SAY (p, "%s=%d/%d", name, rc, rc < 0 ? errno : 0);
}

static void run (P *p, const char *topic, A *args, int *rc)
{
    json_t *script = NULL, *steps, *step;
    size_t at;

    if (flux_plugin_conf_unpack (p, "{s?o}", "script", &script) < 0 || !script)
        return;
    steps = json_object_get (script, topic);
    json_array_foreach (steps, at, step)
        step_run (p, step, args, rc);
}

static int callback (P *p, const char *topic, A *args, void *data)
{
    json_int_t id = 0;
    int state = 0, rc = 0;

    (void) data;
    flux_plugin_arg_unpack (args, 0, "{s?I s?i}", "id", &id, "state", &state);
    SAY (p, "%s %ju %d %d", topic, (uintmax_t) id, state, depth (p, 1) - 1);
    run (p, topic, args, &rc);
    depth (p, -1);
    return rc;
}

static void do_cb (H *h, void *mh, const M *msg, void *arg)
{
    json_t *step;
    int rc = 0;

    (void) mh;
    if (flux_request_unpack (msg, NULL, "{s:o}", "step", &step) < 0)
        flux_respond_error (h, msg, errno, "no step");
    else {
        step_run (arg, step, NULL, &rc);
        flux_respond_pack (h, msg, "{s:i}", "rc", rc);
    }
}

static void who_cb (H *h, void *mh, const M *msg, void *arg)
{
    uint32_t userid = 0;

    (void) mh;
    (void) arg;
    flux_msg_get_userid (msg, &userid);
    flux_respond_pack (h, msg, "{s:I}", "userid", (json_int_t) userid);
}

int flux_plugin_init (P *p)
{
    static const struct handler table[] = {
        {"job.create", callback, NULL},       {"job.validate", callback, NULL},
        {"job.new", callback, NULL},          {"job.state.*", callback, NULL},
        {"job.priority.get", callback, NULL}, {"job.update", callback, NULL},
        {"job.update.*", callback, NULL},     {"job.event.*", callback, NULL},
        {"job.inactive-add", callback, NULL}, {"job.destroy", callback, NULL},
        {"job.dependency.probe", callback, NULL}, {NULL, NULL, NULL},
    };
    const char *sort = "none";

    if (flux_plugin_register (p, "probe", table) < 0)
        return -1;
    flux_plugin_conf_unpack (p, "{s?s}", "sort", &sort);
    if (flux_jobtap_set_load_sort_order (p, sort) < 0
        || flux_jobtap_service_register (p, "do", do_cb, p) < 0
        || flux_jobtap_service_register_ex (p, "who", 2, who_cb, p) < 0)
        return -1;
    return 0;
}
