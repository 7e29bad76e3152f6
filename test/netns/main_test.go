// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"os"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
)

func TestMain(m *testing.M) { os.Exit(cniruntime.TestMain(m)) }
