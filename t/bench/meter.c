// SPDX-License-Identifier: LGPL-3.0-only
// A jobtap plugin that reports the bytes that the C library has allocated in the broker: for all threads, and
// for the thread of the job manager, which runs our plugin. Resident memory also includes freed memory that
// the C library keeps, and does not show which thread allocated the memory.
#include <flux/core.h>
#include <flux/jobtap.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256
#define PROBES 64

static int job_managers;

// Stores in `used` the number of bytes that each arena has allocated, by malloc_info(3). Returns the number
// of arenas.
static int arenas (int64_t *used)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream (&text, &size);
    int count = 0;
    if (!stream)
        return 0;
    malloc_info (0, stream);
    fclose (stream);
    for (char *heap = strstr (text, "<heap nr="); heap && count < MOST; heap = strstr (heap + 1, "<heap nr=")) {
        char *end = strstr (heap, "</heap>");
        char *fast = strstr (heap, "<total type=\"fast\""), *rest = strstr (heap, "<total type=\"rest\"");
        char *all = strstr (heap, "<system type=\"current\"");
        if (!end || !fast || !rest || !all || all > end)
            break;
        used[count++] = atoll (strstr (all, "size=\"") + 6) - atoll (strstr (fast, "size=\"") + 6)
                        - atoll (strstr (rest, "size=\"") + 6);
    }
    free (text);
    return count;
}

// Returns the index of the arena of this thread: the arena that grows when this thread allocates memory.
static int arena_of_this_thread (void)
{
    int64_t before[MOST] = { 0 }, after[MOST] = { 0 };
    void *probes[PROBES];
    int most = 0;
    arenas (before);
    for (int i = 0; i < PROBES; i++)
        probes[i] = malloc (100 * 1024);
    int count = arenas (after);
    for (int i = 0; i < count; i++)
        if (after[i] - before[i] > after[most] - before[most])
            most = i;
    for (int i = 0; i < PROBES; i++)
        free (probes[i]);
    return most;
}

static void memory (flux_t *h, flux_msg_handler_t *mh, const flux_msg_t *msg, void *arg)
{
    int64_t used[MOST] = { 0 }, all = mallinfo2 ().hblkhd;
    for (int i = arenas (used) - 1; i >= 0; i--)
        all += used[i];
    flux_respond_pack (h, msg, "{s:I s:I}", "used", all, "job_manager", used[job_managers]);
}

int flux_plugin_init (flux_plugin_t *p)
{
    job_managers = arena_of_this_thread ();
    flux_plugin_set_name (p, "meter");
    return flux_jobtap_service_register (p, "memory", memory, p);
}
