/* SPDX-License-Identifier: Apache-2.0 */
#include "arrival.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "csv.h"
#include "message.h"
#include "timing.h"

static struct in6_addr mapped(const union parse_endpoint *source)
{
	struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	if (source->family == AF_INET6)
		return source->ipv6.sin6_addr;
	memcpy(mapped.s6_addr + 12, &source->ipv4.sin_addr, sizeof(source->ipv4.sin_addr));
	return mapped;
}

static ssize_t receive_datagram(int fd, void *payload, size_t capacity_bytes, union parse_endpoint *source)
{
	struct iovec iov = {.iov_base = payload, .iov_len = capacity_bytes};
	struct msghdr message = {
		.msg_name = source,
		.msg_namelen = sizeof(*source),
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	ssize_t received_bytes = recvmsg(fd, &message, MSG_DONTWAIT);

	if (received_bytes >= 0)
		return received_bytes;
	return errno == EINTR ? -EAGAIN : -errno;
}

ssize_t arrival_receive(int fd, uint8_t *payload, size_t capacity_bytes, union parse_endpoint *source,
			struct listener_record *record)
{
	struct message_header header;
	ssize_t received_bytes;
	int64_t arrival_ns;
	int decode_error;

	*source = (union parse_endpoint){.family = AF_UNSPEC};
	received_bytes = receive_datagram(fd, payload, capacity_bytes, source);
	if (received_bytes < 0)
		return received_bytes;
	/* Only the header is read before the time: it names the clock to read. */
	decode_error = message_decode(payload, (size_t)received_bytes, &header);
	arrival_ns = timing_now_ns(message_clock_known(header.clock) ? header.clock : CLOCK_TAI);
	*record = (struct listener_record){
		.txtime_ns = header.txtime_ns,
		.arrival_ns = arrival_ns,
		.sequence = header.sequence,
		.run_id = header.run_id,
		.payload_bytes = (uint32_t)received_bytes,
		.source = mapped(source),
		.source_port = ntohs(source->ipv4.sin_port),
		.decoded = !decode_error,
		.valid = !decode_error && !message_verify(payload, (size_t)received_bytes, &header),
	};
	return received_bytes;
}

static int print_row(FILE *file, const void *records, size_t row)
{
	const struct listener_record *record = (const struct listener_record *)records + row;
	bool ipv4 = IN6_IS_ADDR_V4MAPPED(&record->source);
	char source[INET6_ADDRSTRLEN];

	inet_ntop(ipv4 ? AF_INET : AF_INET6, record->source.s6_addr + (ipv4 ? 12 : 0), source,
		  sizeof(source));
	return fprintf(file, "%" PRIu32 ",%" PRId64 ",%" PRId64 ",%" PRIu32 ",%s,%" PRIu16 ",%d\n",
		       record->sequence, record->txtime_ns, record->arrival_ns, record->payload_bytes, source,
		       record->source_port, record->valid);
}

int arrival_write(FILE *csv, const char *path, const struct listener_record *records, size_t count)
{
	return csv_write(csv, path, "sequence,txtime_ns,arrival_ns,payload_bytes,source,source_port,valid",
			 print_row, records, count);
}
