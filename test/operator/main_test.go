// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/ipamclaim"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/apiserver"
)

// The API server under test; errServer is why there is none.
var (
	config    *rest.Config
	admin     client.Client
	errServer error
	scheme    = runtime.NewScheme()
)

// patience is how long anything may take that takes milliseconds on an idle machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(ipamclaim.AddToScheme(scheme))
	suite := apiserver.Suite{
		Scheme: scheme,
		// The tests need only the resource definitions of Multus and IPAMClaims.
		Resources: []string{"../../charts/kubernetsn/files", "testdata"},
		Before:    func(c *rest.Config, a client.Client, err error) { config, admin, errServer = c, a, err },
		After:     func() { endOperator() },
	}
	os.Exit(suite.Run(m))
}

// needServer skips a test where there is none, and bounds what it does.
func needServer(t testing.TB) context.Context {
	t.Helper()
	if errServer != nil {
		testlab.Missing(t, errServer.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
