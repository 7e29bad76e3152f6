// SPDX-License-Identifier: Apache-2.0

// Package throughput is the experiment of figures 3 and 4 of Osmani, Kauppinen, Komu, Tarkoma (Multi-Cloud Connectivity
// for Kubernetes in 5G Networks): throughput of TCP and UDP by iperf3, and latency by ping, over several networks and
// with several MTUs of the link, repeatedly and with standard errors, and the processor time of the networks'
// components.
package throughput
