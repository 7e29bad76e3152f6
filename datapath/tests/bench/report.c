/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static const char note[] = "the machine may be shared: medians and minima over turns, the cases in turn";

struct bench_case *report_case(struct bench_report *report, const char *unit, const char *format, ...)
{
	struct bench_case *bench;
	va_list arguments;

	if (report->case_count == REPORT_CASES_MAX) {
		fprintf(stderr, "ktsn-datapath-bench: more cases than REPORT_CASES_MAX\n");
		exit(EXIT_FAILURE);
	}
	bench = &report->cases[report->case_count++];
	bench->unit = unit;
	va_start(arguments, format);
	vsnprintf(bench->name, sizeof(bench->name), format, arguments);
	va_end(arguments);
	return bench;
}

void report_figure(struct bench_report *report, const struct bench_figure *figure)
{
	if (report->figure_count < REPORT_FIGURES_MAX)
		report->figures[report->figure_count++] = *figure;
}

/* The first processor's model as Linux reports it, without quotation marks and backslashes. */
static void cpu_model(char model[128])
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	strcpy(model, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		const char *value = strchr(line, ':');

		if (!value || strncmp(line, "model name", strlen("model name")) != 0)
			continue;
		snprintf(model, 128, "%.*s", (int)strcspn(value + 2, "\"\\\n"), value + 2);
		break;
	}
	if (file)
		fclose(file);
}

static void date(char text[32])
{
	time_t now = time(NULL);
	struct tm utc;

	strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
}

void report_print(const struct bench_report *report, const struct bench_plan *plan, FILE *out)
{
	char model[128], when[32];

	cpu_model(model);
	date(when);
	fprintf(out, "%s, %ld processors, %s; %u turns\n%s\n\n", model, sysconf(_SC_NPROCESSORS_ONLN), when,
		plan->turns, note);
	fprintf(out, "%-84s %8s %8s %8s\n", "", "median", "least", "most");
	for (uint32_t i = 0; i < report->case_count; i++) {
		const struct bench_case *bench = &report->cases[i];

		fprintf(out, "%-84s %8.2f %8.2f %8.2f %s\n", bench->name, bench_median(bench),
			bench_least(bench), bench_most(bench), bench->unit);
	}
	fprintf(out, "\n%-84s %8s %8s\n", "figures", "value", "limit");
	for (uint32_t i = 0; i < report->figure_count; i++) {
		const struct bench_figure *figure = &report->figures[i];

		fprintf(out, "%-84s %8.2f %s%7.2f %-7s %s\n", figure->name, figure->value,
			figure->at_least ? "≥" : "≤", figure->limit, figure->unit,
			bench_reached(figure) ? "reached" : "not reached");
	}
}

static void host_write(FILE *out)
{
	struct utsname kernel;
	char model[128], when[32];

	uname(&kernel);
	cpu_model(model);
	date(when);
	fprintf(out,
		"\"host\":{\"date\":\"%s\",\"kernel\":\"%s\",\"cpu_model\":\"%s\",\"cpus\":%ld,"
		"\"compiler\":\"" __VERSION__ "\",\"version\":\"" KTSN_VERSION "\"},\n",
		when, kernel.release, model, sysconf(_SC_NPROCESSORS_ONLN));
}

static void json_write(const struct bench_report *report, const struct bench_plan *plan, FILE *out)
{
	fprintf(out, "{\"schema\":1,\"note\":\"%s\",\n", note);
	host_write(out);
	fprintf(out, "\"setup\":{\"turns\":%u,\"operations\":%u,\"messages\":%u},\n\"cases\":[", plan->turns,
		plan->operations, plan->messages);
	for (uint32_t i = 0; i < report->case_count; i++) {
		const struct bench_case *bench = &report->cases[i];

		fprintf(out,
			"%s\n{\"name\":\"%s\",\"unit\":\"%s\",\"median\":%.3f,\"least\":%.3f,\"most\":%.3f,"
			"\"samples\":%u}",
			i ? "," : "", bench->name, bench->unit, bench_median(bench), bench_least(bench),
			bench_most(bench), bench->sample_count);
	}
	fprintf(out, "],\n\"figures\":[");
	for (uint32_t i = 0; i < report->figure_count; i++) {
		const struct bench_figure *figure = &report->figures[i];

		fprintf(out,
			"%s\n{\"name\":\"%s\",\"unit\":\"%s\",\"value\":%.3f,\"limit\":%.3f,"
			"\"limit_is\":\"%s\",\"reached\":%s}",
			i ? "," : "", figure->name, figure->unit, figure->value, figure->limit,
			figure->at_least ? "at least" : "at most", bench_reached(figure) ? "true" : "false");
	}
	fprintf(out, "]}\n");
}

int report_write(const struct bench_report *report, const struct bench_plan *plan, const char *path)
{
	FILE *out = fopen(path, "w");
	int err = 0;

	if (!out)
		return -errno;
	json_write(report, plan, out);
	if (ferror(out))
		err = -EIO;
	if (fclose(out) && !err)
		err = -errno;
	return err;
}
