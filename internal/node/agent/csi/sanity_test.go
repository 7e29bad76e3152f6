// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestSanity runs csi-test's, as far as they do without a controller, which a driver of inline volumes
// does not have: those of the identity service, and of what a node may be asked wrongly.
func TestSanity(t *testing.T) {
	n := newNode(t)
	testlab.Must(t, os.MkdirAll(n.driver.PodsDir, 0o750))
	config := sanity.NewTestConfig()
	config.Address = "unix://" + n.server.Endpoint
	config.TargetPath, config.StagingPath = filepath.Join(n.driver.PodsDir, "target"), filepath.Join(n.driver.PodsDir, "staging")
	defer sanity.GinkgoTest(&config).Finalize()
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.FocusStrings = []string{"Identity Service", "Node Service.*(NodePublishVolume|NodeUnpublishVolume|NodeGetInfo|NodeGetCapabilities).*should (fail|return)"}
	reporter.NoColor, reporter.Succinct = true, true
	if !ginkgo.RunSpecs(t, "csi-test", suite, reporter) {
		t.Error("see above")
	}
}
