"""What a credit bureau and a payment processor would add to what a bank knows of its clients.

Reads UCI_Credit_Card.csv (or .csv.gz) from the folder that COLONNADE_DATA names.
"""

import colonnade as cn

tables, answers = cn.datasets.credit_tables()
# A status of repayment is a code more than a number; a rare code may not be among training rows.
categories = {
    "bank": ["SEX", "EDUCATION", "MARRIAGE"],
    "bureau": tables["bureau"].drop("ID").columns,
    "processor": [],
}
model = cn.VerticalClassifier(
    id="ID",
    transformers={
        name: cn.tables.TableTransformer(categorical=columns, unseen="zeros")
        for name, columns in categories.items()
    },
    top=(32,),
    dropout=0.3,
    batch_size=256,
    epochs=6,
    validation=0.2,
)
clients = {name: cn.datasets.with_logarithms(table) for name, table in tables.items()}
for value in model.partner_values(clients, answers).values:
    print(f"{value.partner:9}  {value.gain:+.4f} {value.metric.upper()}")
