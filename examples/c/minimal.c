/* SPDX-License-Identifier: Apache-2.0 */
/* Sends one UDP datagram that leaves in 1 ms: minimal ADDRESS PORT. sender.c handles the errors that end this
 * one. */
#include <arpa/inet.h>
#include <err.h>
#include <linux/net_tstamp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static void send_at(int fd, struct iovec *data, uint64_t at_ns)
{
	/* README: begin */
	struct sock_txtime txtime = {.clockid = CLOCK_TAI};
	if (setsockopt(fd, SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)))
		err(1, "setsockopt(SO_TXTIME)"); /* once for a socket */

	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(at_ns))] = {0};
	struct msghdr message = {
		.msg_iov = data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
	cmsg->cmsg_level = SOL_SOCKET, cmsg->cmsg_type = SCM_TXTIME, cmsg->cmsg_len = CMSG_LEN(sizeof(at_ns));
	memcpy(CMSG_DATA(cmsg), &at_ns, sizeof(at_ns)); /* ns of CLOCK_TAI */
	if (sendmsg(fd, &message, 0) < 0)
		err(1, "sendmsg");
	/* README: end */
}

int main(int argc, char **argv)
{
	struct sockaddr_in peer = {.sin_family = AF_INET};
	struct iovec data = {.iov_base = "hello", .iov_len = 5};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct timespec now;

	if (argc != 3 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1)
		errx(2, "usage: minimal ADDRESS PORT");
	peer.sin_port = htons((uint16_t)atoi(argv[2]));
	if (fd < 0 || connect(fd, (struct sockaddr *)&peer, sizeof(peer)))
		err(1, "open a socket to %s", argv[1]);
	if (clock_gettime(CLOCK_TAI, &now))
		err(1, "read CLOCK_TAI");
	send_at(fd, &data, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + 1000000);
	return 0;
}
