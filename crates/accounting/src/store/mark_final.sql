UPDATE fairshare_spent_table SET final = 1 WHERE start < ?1 AND EXISTS (SELECT 1 FROM fairshare_deposit_table AS deposit
    WHERE (deposit.scope, deposit.name, deposit.unit, deposit.start) =
        (fairshare_spent_table.scope, fairshare_spent_table.name, fairshare_spent_table.unit, fairshare_spent_table.start)
        AND "end" <= ?2)
