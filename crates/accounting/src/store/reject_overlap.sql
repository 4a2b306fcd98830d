DROP TRIGGER IF EXISTS fairshare_deposit_table_overlap;
CREATE TRIGGER fairshare_deposit_table_overlap BEFORE INSERT ON fairshare_deposit_table WHEN EXISTS (
    SELECT 1 FROM fairshare_deposit_table WHERE scope = NEW.scope AND name = NEW.name AND unit = NEW.unit
        AND start < NEW."end" AND NEW.start < "end" AND NOT (start = NEW.start AND "end" = NEW."end")
        AND id > (SELECT COALESCE(MAX(id), 0) FROM fairshare_deposit_table
            WHERE milliseconds = 0 AND scope = NEW.scope AND name = NEW.name AND unit = NEW.unit))
BEGIN SELECT RAISE(ABORT, 'the window overlaps another window of the budget'); END
