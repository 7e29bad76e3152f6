// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package netns_test

import (
	"testing"
	"time"
)

func TestChaosBusyLoopSurvivesRealtimeBudget(t *testing.T) {
	newLab(t).checkMachinesBudget(t, time.Minute)
}
