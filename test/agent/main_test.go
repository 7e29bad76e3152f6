// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/testenv"
	"github.com/kubernetsn/kubernetsn/test/apiserver"
)

// The API server under test; config is nil without one.
var (
	config *rest.Config
	admin  client.Client
	whyNot string
	scheme = runtime.NewScheme()
)

// patience is how long anything may take that takes milliseconds on an idle machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	stop, err := startServer()
	if err != nil {
		whyNot = err.Error()
	}
	status := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func startServer() (stop func() error, err error) {
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return func() error { return nil }, err
	}
	started, stop, err := apiserver.Start("../../charts/kubernetsn/files")
	if err != nil {
		return stop, err
	}
	if admin, err = client.New(started, client.Options{Scheme: scheme}); err == nil {
		config = started
	}
	return stop, err
}

// needServer skips a test where there is none, and bounds what it does.
func needServer(t *testing.T) context.Context {
	t.Helper()
	if config == nil {
		testenv.Missing(t, whyNot)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func create(ctx context.Context, t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := admin.Create(ctx, object); err != nil {
			t.Fatalf("make %T: %v", object, err)
		}
		t.Cleanup(func() {
			if err := admin.Delete(context.WithoutCancel(ctx), object); client.IgnoreNotFound(err) != nil {
				t.Errorf("remove %T: %v", object, err)
			}
		})
	}
}

// update changes an object that is up to date.
func update(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Update(ctx, object); err != nil {
		t.Fatalf("change %T: %v", object, err)
	}
}

// eventually repeats a look until it finds nothing wrong.
func eventually(ctx context.Context, t *testing.T, look func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := look()
		switch {
		case err == nil:
			return
		case time.Now().After(deadline) || ctx.Err() != nil:
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
