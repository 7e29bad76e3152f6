// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"testing"

	"github.com/kubernetsn/kubernetsn/test/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Main(m) }
