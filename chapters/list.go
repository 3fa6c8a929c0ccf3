package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"outboxplayground/core/lab"
)

func listCommand() *cobra.Command {
	var chinese bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the table of contents",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			say := func(t lab.Text) string {
				if chinese {
					return t.ZhTW
				}
				return t.En
			}
			for _, c := range contents() {
				names := make([]string, len(c.Variants))
				for i, v := range c.Variants {
					names[i] = v.Name
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%02d  %s\n    %s\n    chapters/%02d-%s · variants: %s\n",
					c.Number, say(c.Title), say(c.Question), c.Number, c.Slug, strings.Join(names, ", "))
				if c.Needs.En != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "    %s%s\n", say(lab.Text{En: "needs ", ZhTW: "需要 "}), say(c.Needs))
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&chinese, "zh", false, "in Traditional Chinese")
	return cmd
}
