// SPDX-License-Identifier: Apache-2.0

// Package bench_test starts `ktsn demo` and `ktsn bench` as users do, and reads what they write: which runs were measured, which
// counts hold on any machine, that an interrupted bench goes on, and that nothing is left behind.
package bench_test

import (
	"os"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
)

func TestMain(m *testing.M) { os.Exit(cniruntime.TestMain(m)) }
