/* SPDX-License-Identifier: LGPL-3.0-only */
/* A jobtap plugin that keeps jobs in DEPEND: by a declared dependency of the scheme "keep", by the jobspec's
 * attributes.system.keep_silently (which no plugin can see in the list of dependencies), or by its service
 * "add" {id, name}; "drop" {id, name} lets go.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

typedef struct flux_plugin P;
typedef struct flux_args A;
typedef struct flux_handle H;
typedef struct flux_msg M;
struct handler {
    const char *topic;
    int (*cb) (P *, const char *, A *, void *);
    void *data;
};

int flux_plugin_register (P *, const char *, const struct handler *);
int flux_plugin_arg_unpack (A *, int, const char *, ...);
int flux_jobtap_dependency_add (P *, uint64_t, const char *);
int flux_jobtap_dependency_remove (P *, uint64_t, const char *);
int flux_jobtap_service_register (P *, const char *, void (*) (H *, void *, const M *, void *), void *);
int flux_request_unpack (const M *, const char **, const char *, ...);
int flux_respond (H *, const M *, const char *);
int flux_respond_error (H *, const M *, int, const char *);

enum { NEW = 1 };

static int keep (P *p, uint64_t id, int state, const char *kind, const char *value)
{
    char name[128];

    /* A job that a restart brings back still has its names. */
    if (state != NEW)
        return 0;
    snprintf (name, sizeof (name), "%s=%s", kind, value);
    return flux_jobtap_dependency_add (p, id, name);
}

static int declared (P *p, const char *topic, A *args, void *data)
{
    const char *value;
    int64_t id;
    int state;

    (void) topic;
    (void) data;
    if (flux_plugin_arg_unpack (args, 0, "{s:I s:i s:{s:s}}", "id", &id, "state", &state, "dependency", "value", &value) < 0)
        return -1;
    return keep (p, (uint64_t) id, state, "keep", value);
}

static int silent (P *p, const char *topic, A *args, void *data)
{
    const char *value = NULL;
    int64_t id;
    int state;

    (void) topic;
    (void) data;
    if (flux_plugin_arg_unpack (args, 0, "{s:I s:i s:{s?{s?{s?s}}}}", "id", &id, "state", &state,
                                "jobspec", "attributes", "system", "keep_silently", &value) < 0 || !value)
        return 0;
    return keep (p, (uint64_t) id, state, "silent", value);
}

static void answer (H *h, const M *msg, int rc)
{
    if (rc < 0)
        flux_respond_error (h, msg, errno, "refused");
    else
        flux_respond (h, msg, NULL);
}

static void add (H *h, void *mh, const M *msg, void *arg)
{
    const char *name;
    int64_t id;

    (void) mh;
    if (flux_request_unpack (msg, NULL, "{s:I s:s}", "id", &id, "name", &name) < 0)
        answer (h, msg, -1);
    else
        answer (h, msg, flux_jobtap_dependency_add (arg, (uint64_t) id, name));
}

static void drop (H *h, void *mh, const M *msg, void *arg)
{
    const char *name;
    int64_t id;

    (void) mh;
    if (flux_request_unpack (msg, NULL, "{s:I s:s}", "id", &id, "name", &name) < 0)
        answer (h, msg, -1);
    else
        answer (h, msg, flux_jobtap_dependency_remove (arg, (uint64_t) id, name));
}

int flux_plugin_init (P *p)
{
    static const struct handler table[] = {
        {"job.dependency.keep", declared, NULL}, {"job.new", silent, NULL}, {NULL, NULL, NULL},
    };

    return flux_plugin_register (p, "keeper", table) < 0
           || flux_jobtap_service_register (p, "add", add, p) < 0
           || flux_jobtap_service_register (p, "drop", drop, p) < 0 ? -1 : 0;
}
