// SPDX-License-Identifier: Apache-2.0

// Package throughput is the experiment of figures 3 and 4 of Osmani, Kauppinen, Komu, Tarkoma (Multi-Cloud Connectivity for
// Kubernetes in 5G Networks): throughput of TCP and UDP by iperf3, and latency by ping, over several networks and with several
// MTUs of the link, again and again, with standard errors; and what the components of the networks take of the processors
// meanwhile.
package throughput
