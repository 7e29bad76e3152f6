// SPDX-License-Identifier: Apache-2.0

// Package txtime has the cases of what an application can observe of SO_TXTIME, the kernel's results (kernel.txt,
// recorded in the virtual machine of package conformance, which checks them), and the known differences of libktsn.
//
// ktsn-test-txtime (datapath/tests/programs/txtime), an ordinary application, runs a case and prints a fact a line:
// "CASE: WHAT = VALUE". The caller adds which messages arrived.
package txtime
