"""The edge cases that a changeset has to stand, each with the tests that show it. Runs none of them: it finds them."""

from __future__ import annotations

import importlib

EDGES: dict[str, dict[str, str]] = {
    "paths": {
        "`..`, absolute, `a/../../b`, NUL, too long a name or path": (
            "steps.a_path_that_leaves_the_tree_or_cannot_be_is_refused"
        ),
        "empty, `.`": "edges.the_empty_path_and_the_dot_are_the_tree_itself",
        "trailing slash, leading dash, `.wh.x`": "steps.a_path_may_be_spelled_in_odd_ways",
        "255 bytes, newline, tab, backslash, colon, comma, not UTF-8": (
            "providers.the_same_script_gives_the_same_changes"
        ),
        "the tree's own path has such a name": "tools.a_tree_with_an_odd_name_can_be_overlaid",
        "composed and decomposed letters, two names that differ by case, a rename by case alone": (
            "steps.names_that_differ_by_case_or_composition_are_refused_where_asked"
        ),
        "a file system that does not tell case": (
            "edges.names_that_differ_by_case_are_refused_unasked_where_the_file_system_makes_them_one"
        ),
        "a folder called like the state directory": (
            "steps.a_tree_with_a_folder_called_like_a_state_directory_is_a_tree_like_any_other"
        ),
        "names in answers and diffs": (
            "steps.answers_are_plain_data_that_a_journal_takes texts.odd_names_are_quoted_as_git_does"
        ),
    },
    "links": {
        "relative, absolute, by way of an old one, out of the tree": (
            "steps.a_new_link_out_of_the_tree_is_refused_even_by_way_of_an_old_one"
        ),
        "dangling, to itself": "edges.a_dangling_link_and_a_link_to_itself_land_as_they_are",
        "an old one that leads out, an absolute one into the tree": (
            "steps.an_old_link_out_of_the_tree_may_stay_and_an_absolute_one_into_it_may_come"
        ),
        "a write through one that leads out": "steps.a_write_through_a_link_that_leaves_the_tree_is_refused",
        "a write through one inside, to a folder": "providers.the_same_script_gives_the_same_changes",
        "a parent becomes one between seal and landing": (
            "landing.a_parent_replaced_by_a_link_between_seal_and_landing_leads_nowhere"
        ),
        "the tree reached by one": "steps.a_tree_reached_by_a_link_is_the_same_tree",
    },
    "kinds": {
        "file, folder and link turn into each other; empty folders come and go; empty files": (
            "providers.the_same_script_gives_the_same_changes"
        ),
        "a folder replaced by a new one, with folders inside": "providers.the_same_commands_give_the_same_changes",
        "pipe, device, setuid": "steps.pipes_devices_and_setuid_files_are_refused",
        "socket": "steps.a_socket_in_a_cache_is_nobodys_business",
        "hard links": "edges.a_hard_link_in_the_tree_is_not_written_through",
        "sparse": "edges.a_large_sparse_file_stays_sparse",
        "5 GB": "edges.a_file_of_five_gigabytes_lands",
        "binary": "landing.two_changesets_meet texts.a_binary_file_is_named_measured_and_shown_as_far_as_it_can_be",
        "open for writing at the seal": "steps.a_file_still_open_for_writing_at_the_seal_is_sealed_as_it_is_then",
        "kept open by someone at the landing": (
            "edges.a_file_that_someone_keeps_open_lands_all_the_same "
            "late.a_write_by_a_handle_from_before_the_landing_is_kept_and_named"
        ),
        "memory map": "edges.a_write_by_a_memory_map_is_seen",
        "deleted and open": "edges.a_file_removed_while_it_is_open_leaves_nothing",
    },
    "metadata": {
        "modes alone; same size and same time": (
            "providers.the_same_script_gives_the_same_changes providers.the_same_commands_give_the_same_changes"
        ),
        "0000": "edges.files_that_may_not_be_read_can_be_changed_removed_and_landed",
        "a read-only folder": "edges.a_file_in_a_read_only_folder_is_changed_and_lands_once_it_may",
        "umask": "edges.the_umask_counts_for_what_is_new",
        "times": "edges.times_of_landed_files_are_those_of_the_view",
        "another owner": "edges.a_file_keeps_its_owner",
        "not permitted in the middle": "landing.an_immutable_or_failing_file_in_the_middle_takes_everything_back",
    },
    "renames": {
        "file, folder, over a file, over a folder that went, swap, the old name again, a folder and a child": (
            "providers.the_same_script_gives_the_same_changes"
        ),
        "a folder of the tree by rename(2)": "providers.promote_lets_a_tool_rename_a_folder_of_the_tree",
        "promoted, and left as it was": (
            "providers.what_was_promoted_and_stayed_as_it_was_is_in_the_view_of_the_next_step"
        ),
        "a file by a tool": "edges.a_file_that_a_tool_renames_was_not_there_under_its_new_name",
    },
    "git": {
        "ignored files, `.git` stays": "edges.git_works_in_the_view_and_its_repository_stays_as_it_was",
        "`.gitignore` edited": "edges.an_edited_gitignore_is_a_file_like_any_other_and_hides_nothing",
        "nested repositories, submodules": "edges.nested_repositories_and_submodules_keep_their_git",
        "hooks": "edges.a_git_hook_runs_in_the_view",
        "caches": (
            "providers.ephemeral_files_are_in_the_view_and_never_land edges.a_folder_that_goes_takes_its_caches_along"
        ),
    },
    "layers": {
        "nothing": "steps.a_step_of_nothing_is_a_layer_of_nothing landing.a_landing_of_nothing_is_a_landing",
        "there and back, made and removed": "steps.a_change_taken_back_in_a_later_step_comes_to_nothing",
        "removed and made again": "steps.deleted_in_one_and_made_again_in_two",
        "one from under others": (
            "dropping.a_step_that_nothing_lies_on_is_dropped_from_under_the_others "
            "dropping.a_step_whose_work_was_changed_since_is_not_dropped_and_the_paths_are_named"
        ),
        "rewind, then a new step": "steps.only_the_newest_layer_can_be_dropped_and_a_rewind_goes_newest_first",
        "a hundred": "tools.a_hundred_layers_can_be_overlaid",
        "dropped while the tree moves": (
            "edges.a_step_that_is_dropped_while_the_tree_moves_leaves_the_tree_as_it_is_by_then"
        ),
        "sealed twice": "steps.one_step_is_open_at_a_time_and_is_over_when_it_is",
    },
    "crashes": {
        "begin and seal": "crashes.a_seal_killed_at_any_call_is_a_sealed_layer_or_none",
        "a tool at work, daemons": "tools.a_killed_runtime_takes_its_tools_with_it_and_its_open_layer_is_dropped",
        "landing, recovery": "crashes.a_landing_killed_at_any_call_is_all_or_nothing",
        "abort": "meddling.a_landing_on_its_way_back_killed_at_any_call_and_again_leaves_what_was_there",
        "rewind, drop from under": (
            "crashes.a_rewind_killed_at_any_call_leaves_the_first_layers "
            "dropping.a_drop_from_under_others_killed_at_any_call_has_happened_or_not"
        ),
        "pruning": "edges.pruning_killed_at_any_call_can_be_done_again",
        "full disk": "steps.a_full_disk_at_any_file_leaves_the_tree_and_the_changeset",
        "an fsync that fails": "edges.an_fsync_that_fails_is_an_error_and_the_tree_is_before_or_after",
        "state directory gone": (
            "edges.a_state_directory_that_vanishes_in_the_middle_is_an_error_and_no_harm "
            "steps.a_state_directory_that_was_deleted_is_an_unknown_changeset"
        ),
        "records damaged": (
            "steps.a_damaged_record_is_said_to_be_and_nothing_is_done "
            "steps.a_layer_that_was_changed_since_its_seal_does_not_land"
        ),
        "a read-only tree": "steps.a_read_only_tree_is_not_landed_in_and_is_as_it_was",
        "a tree that is gone, moved, replaced": (
            "landing.a_tree_that_is_not_there_or_no_folder_is_refused "
            "landing.a_tree_moved_together_with_its_home_still_lands "
            "landing.a_tree_that_was_replaced_by_another_is_refused"
        ),
        "a second process": "crashes.a_second_process_cannot_open_it_meanwhile_and_can_afterwards",
        "power cuts": (
            "power_cuts.a_landing_survives_a_power_cut_after_any_call "
            "power_cuts.a_seal_survives_a_power_cut_after_any_call "
            "power_images.a_landing_survives_a_real_power_cut_before_any_call"
        ),
        "a class of waiting left out": (
            "power_cuts.a_landing_that_does_not_wait_is_caught power_cuts.a_seal_that_does_not_wait_is_caught "
            "power_cuts.every_class_of_waiting_is_needed_by_some_test"
        ),
    },
    "others": {
        "every pair of changes that can meet": "landing.two_changesets_meet texts.the_table_never_loses_a_change",
        "a landing while a step works": "landing.a_landing_during_the_step_gives_its_pre_image_as_the_ancestor",
        "an editor, in place or by rename, at any point": (
            "meddling.no_edit_is_lost_at_any_point_of_a_landing meddling.no_edit_is_lost_if_the_landing_is_killed_too"
        ),
        "an editor while a step works": (
            "landing.an_edit_during_the_step_makes_the_ancestor_unknown_and_is_never_overwritten"
        ),
        "eight at once": "edges.eight_who_land_at_once_all_land_and_nothing_is_lost",
        "the line": "landing.landings_stand_in_a_visible_line_and_go_in_order",
        "a clock that goes back": "landing.a_clock_that_went_back_proves_nothing",
        "whoever holds the lock is killed": "crashes.a_landing_killed_at_any_call_is_all_or_nothing",
    },
    "providers": {
        "the same changes": (
            "providers.the_same_script_gives_the_same_changes providers.the_same_commands_give_the_same_changes "
            "model.the_api_does_what_a_plain_folder_does model.a_copy_does_what_a_plain_folder_does"
        ),
        "no namespaces": "steps.without_namespaces_the_next_provider_is_chosen_and_it_is_said_why",
        "a tree in memory": "edges.a_tree_in_memory_has_a_view_and_lands",
        "the state on another file system": (
            "steps.a_state_directory_on_another_file_system_lands_by_a_room_in_the_tree "
            "crashes.a_landing_with_its_room_in_the_tree_killed_at_any_call_is_all_or_nothing"
        ),
        "a file system inside the tree": "edges.a_file_system_inside_the_tree_keeps_overlayfs_away",
        "too large a tree": (
            "steps.a_tree_too_large_to_copy_falls_back_to_the_api steps.a_copy_that_outgrows_its_budget_is_stopped"
        ),
    },
    "views": {
        "the tree's own path": "tools.a_tool_is_at_the_trees_own_path",
        "first lines of scripts, editable installs": (
            "tools.a_script_with_an_absolute_first_line_and_an_editable_install_see_the_view"
        ),
        "two at once": "tools.two_changesets_run_tools_at_once_and_see_only_their_own",
        "one within another": "edges.a_view_within_a_view_is_of_another_tree",
        "huge output": "tools.huge_output_is_cut_in_the_middle_and_said_to_be",
        "timeout, cancel, daemons": (
            "tools.a_timeout_ends_daemons_too tools.a_cancel_from_another_thread_ends_the_whole_tree "
            "tools.the_end_of_a_command_is_the_end_of_its_daemons"
        ),
        "confined": "tools.confined_tools_cannot_write_outside_the_view",
    },
    "merges": {
        "CRLF, no last newline, byte order mark, marks of conflict in the text": "texts.a_clean_merge_has_both",
        "not UTF-8, an empty ancestor": "texts.what_is_text texts.an_empty_ancestor_and_what_is_no_text",
        "huge and repetitive": "texts.huge_repetitive_texts_are_given_up_or_left_to_git",
    },
}


def test_each_edge_case_has_its_test() -> None:
    for group, cases in EDGES.items():
        for case, tests in cases.items():
            for test in tests.split():
                module, _, name = test.partition(".")
                found = getattr(importlib.import_module(f"tests.changeset.test_{module}"), f"test_{name}", None)
                assert callable(found), f"{group}: {case}: there is no test {name} in test_{module}"
