// SPDX-License-Identifier: Apache-2.0

// Package txtime has what an application can tell of SO_TXTIME, case by case: which cases there are, what the kernel
// answers (kernel.txt, recorded in the virtual machine of package conformance, which checks it), and where libktsn
// is known to differ.
//
// A case is run by ktsn-test-txtime (datapath/tests/programs/txtime), an ordinary application, which says one fact a
// line: "CASE: WHAT = VALUE". Whoever runs it adds which messages arrived.
package txtime
