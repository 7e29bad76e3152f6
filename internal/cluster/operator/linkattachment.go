// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// linksConfiguration is the CNI configuration of pods with links: tsn-cni records the sandbox and creates no interface. The chart's policy
// on the operator's attachments has the same text.
const linksConfiguration = `{"cniVersion":"1.1.0","name":"` + v1alpha1.LinksAttachment + `","type":"tsn-cni","links":true}`

// linksAttachment maintains the NetworkAttachmentDefinition of pods with links in the operator's namespace.
type linksAttachment struct {
	client    client.Client
	namespace string
	log       *slog.Logger
}

// Start applies it periodically: clusters without Multus have no such kind to watch.
func (l *linksAttachment) Start(ctx context.Context) error {
	text := ""
	for {
		after := resyncPeriod
		if err := l.apply(ctx); err != nil {
			after = retryPeriod
			if !errors.Is(err, errMultus) {
				after = conflictRetryDelay * 10
			}
			if text != err.Error() {
				text = err.Error()
				l.log.Warn("pods cannot have links yet", "error", err)
			}
		} else {
			text = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
	}
}

func (l *linksAttachment) apply(ctx context.Context) error {
	attachment := newAttachment(v1alpha1.LinksAttachment, l.namespace)
	attachment.SetLabels(map[string]string{managedBy: string(fieldOwner)})
	if err := unstructured.SetNestedField(attachment.Object, linksConfiguration, "spec", "config"); err != nil {
		return err
	}
	err := l.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(attachment), fieldOwner, client.ForceOwnership)
	if meta.IsNoMatchError(err) {
		return errMultus
	}
	if err != nil {
		return fmt.Errorf("create NetworkAttachmentDefinition %s/%s: %w", l.namespace, v1alpha1.LinksAttachment, err)
	}
	return nil
}
